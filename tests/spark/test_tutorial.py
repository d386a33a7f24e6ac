"""The pipeline of docs/TUTORIAL.md, as its commands run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.clients import Publisher, Reader
from tests.support.snippets import ROOT, blocks

TIMEOUT_S = 300
ALL = blocks(ROOT / "docs" / "TUTORIAL.md")


def test_the_pipeline_of_the_tutorial(make_broker: Any, tmp_path: Path) -> None:
    broker = make_broker()
    values = ['{"word":"acknowledgement"}', '{"word":"short"}', "this is not JSON", '{"word":"replication"}']
    Publisher(broker.bootstrap).send("words", [{"value": value} for value in values])
    (source,) = [block.text for block in ALL if "Pipeline(" in block.text]
    (commands,) = [block.text for block in ALL if "pipelines run words.py" in block.text]
    (tmp_path / "words.py").write_text(source)
    program = str(Path(sys.executable).parent / "ottla")
    for line in commands.splitlines():
        words = [program, *line.split()[1:]]
        if "run" in words:
            words += ["--master", "local[2]"]
        ran = subprocess.run(
            words,
            cwd=tmp_path,
            env={**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    with Reader(broker.bootstrap, "long-words", [0], 0) as reader:
        assert [record.key() for record in reader.take(2)] == [b"acknowledgement", b"replication"]
    with Reader(broker.bootstrap, "words.dead", [0], 0) as reader:
        assert reader.take(1)[0].value() == b"this is not JSON"

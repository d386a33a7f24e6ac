"""The blocks of README.md, TUTORIAL.md and PIPELINES.md are executed as a reader would paste them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.support.snippets import ROOT, Block, blocks

README, TUTORIAL, PIPELINES = (
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("TUTORIAL.md", "PIPELINES.md")),
)
TIMEOUT_S = 120


def named(path: Path, language: str, text: str) -> Block:
    """The only block of a language that contains the text."""
    (found,) = [block for block in blocks(path) if block.language == language and text in block.text]
    return found


def run(code: str, folder: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_start_of_the_readme_works_pasted_as_a_whole(tmp_path: Path) -> None:
    """The broker and the clients at once: the clients wait until the broker listens."""
    port = free_port()
    start = named(README, "sh", "ottla broker").text
    commands = [line for line in start.splitlines() if not line.startswith("pip install")]
    python = named(README, "python", "confluent_kafka").on(f"127.0.0.1:{port}")
    script = "\n".join([*commands, "python3 - <<'END'", python.rstrip("\n"), "END", "kill %1; wait"])
    program = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}"}
    environment["KAFKA_LISTENERS"] = f"PLAINTEXT://127.0.0.1:{port}"
    with subprocess.Popen(
        ["bash", "-m"], cwd=tmp_path, env=environment, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as shell:  # fmt: skip
        try:
            output, errors = shell.communicate(script + "\n", timeout=TIMEOUT_S)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    assert "b'Score 39-46'" in output, errors
    assert (tmp_path / "ottla-data" / "meta.properties").exists()


@pytest.mark.slow
def test_the_cluster_of_the_readme(tmp_path: Path) -> None:
    assert (
        run(named(README, "python", "ottla.testing import Cluster").text, tmp_path).count("127.0.0.1:") == 3
    )


def test_the_records_of_the_tutorial(broker: BrokerProcess, tmp_path: Path) -> None:
    output = run(named(TUTORIAL, "python", "confluent_kafka").on(broker.bootstrap), tmp_path)
    assert output.count("\n") == 5
    assert "this is not JSON" in output


@pytest.mark.parametrize("path", [TUTORIAL, PIPELINES], ids=lambda path: path.name)
def test_a_declared_pipeline_can_be_loaded(path: Path, tmp_path: Path) -> None:
    from ottla.pipelines.declare import load

    file = tmp_path / f"declared_{path.stem.lower()}.py"
    file.write_text(named(path, "python", "Pipeline(").text)
    assert load(str(file)).flows

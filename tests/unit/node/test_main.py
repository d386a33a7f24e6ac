"""What a broker process imports: each module that it does not need takes memory and time of every start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

UNUSED = (
    "confluent_kafka",
    "cramjam",
    "cryptography",
    "difflib",
    "email",
    "greenlet",
    "http",
    "importlib.metadata",
    "lzma",
    "ottla.security.sasl.oauth",
    "ottla.security.sasl.scram",
    "ottla.security.sasl.settings",
    "ottla.security.tls.contexts",
    "ottla.security.tls.settings",
    "pathlib",
    "pyarrow",
    "re2",
    "rich",
    "shutil",
    "typer",
    "urllib.request",
)


def test_packages_that_an_idle_broker_without_security_does_not_need_are_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys, ottla.cli.broker, ottla.node.main, ottla.broker.handlers as handlers; handlers.load_all(); "
        "ottla.cli.broker.argument_parser().parse_args([]); "
        f"ottla.node.main.load(None, {{}}, [], {str(tmp_path)!r}); "
        f"print(*({set(UNUSED)!r} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []

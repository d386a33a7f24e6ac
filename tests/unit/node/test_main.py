"""What a broker process occupies: modules that it does not need take memory and time of every start."""

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


def test_machine_code_that_only_the_start_needs_leaves_the_memory() -> None:
    code = (
        "import re, ottla.node.main as main; "
        "mapped = lambda: int(re.search(r'RssFile:\\s+(\\d+)', open('/proc/self/status').read())[1]); "
        "before = mapped(); main._release_code(); after = mapped(); "
        "print(before, after, sum(range(1000)))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True
    )
    before, after, result = map(int, run.stdout.split())
    assert after < 0.8 * before, "KiB of mapped files"
    assert result == 499_500, "the process continues"

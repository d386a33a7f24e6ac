"""What a broker process imports: each module that it does not need takes memory and time of every start."""

from __future__ import annotations

import subprocess
import sys

UNUSED = (
    "confluent_kafka",
    "cramjam",
    "greenlet",
    "importlib.metadata",
    "pyarrow",
    "re2",
    "rich",
    "typer",
)


def test_packages_that_an_idle_broker_does_not_need_are_not_imported() -> None:
    code = (
        "import sys, ottla.cli.broker, ottla.node.main, ottla.broker.handlers as handlers; handlers.load_all(); "
        f"print(*({set(UNUSED)!r} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []

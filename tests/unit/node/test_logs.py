"""The formats of the log: for readers, for programs, as JSON; hostile values stay on their line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from ottla.node.logs import choose_format

HOSTILE = "line\n\x1b[2Jlevel='critical'"
PROGRAM = f"""
from ottla.node.logs import configure_logs
log = configure_logs()
log.warning("an event", peer="127.0.0.1:1", value={HOSTILE!r}, count=3, items=[1])
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
"""


def written(log_format: str | None, *, terminal: bool = False) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "OTTLA_LOG_FORMAT"}
    if log_format is not None:
        environment["OTTLA_LOG_FORMAT"] = log_format
    command = [sys.executable, "-c", PROGRAM]
    if not terminal:
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stderr
    primary, secondary = pty.openpty()
    with open(primary, "rb", buffering=0) as reader:  # noqa: PTH123 - a descriptor
        subprocess.run(command, env=environment, check=True, stderr=secondary)
        os.close(secondary)
        return reader.read(100_000).decode()


@pytest.mark.parametrize(
    ("wanted", "terminal", "expected"),
    [
        (None, True, "text"),
        (None, False, "keyvalue"),
        ("json", True, "json"),
        ("keyvalue", True, "keyvalue"),
        ("text", False, "text"),
        ("unknown", False, "keyvalue"),
    ],
)
def test_the_format_depends_on_the_terminal_unless_it_is_given(
    wanted: str | None, terminal: bool, expected: str
) -> None:
    assert choose_format(wanted, on_terminal=terminal) == expected


def test_json_is_one_object_per_line() -> None:
    first, second = written("json").splitlines()
    event = json.loads(first)
    assert (event["event"], event["level"], event["value"], event["count"]) == (
        "an event",
        "warning",
        HOSTILE,
        3,
    )
    assert "ZeroDivisionError" in json.loads(second)["exception"]


def test_key_value_entries_are_the_default_without_a_terminal() -> None:
    first, *_ = written(None).splitlines()
    assert "level='warning' event='an event' peer='127.0.0.1:1'" in first
    assert "\x1b" not in first


def test_a_terminal_gets_lines_for_readers() -> None:
    first, *rest = written(None, terminal=True).splitlines()
    assert "\x1b[33mwarning" in first
    assert "an event  peer=127.0.0.1:1" in first
    assert "count=3" in first
    assert "\\n\\x1b[2Jlevel" in first
    assert any("ZeroDivisionError" in line for line in rest)


def test_text_without_a_terminal_has_no_colours() -> None:
    assert "\x1b" not in written("text")

"""No test depends on the speed of the machine: no deadline of an example, no assertion about elapsed time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PROFILE = ROOT / "tests" / "conftest.py"
CLOCKS = frozenset(
    {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns", "process_time"}
)


def reads_clock(node: ast.AST, measured: set[str]) -> bool:
    """Whether an expression calls a clock of the machine, or uses a name that was computed from one."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and ast.unparse(each) in measured:
            return True
        if isinstance(each, ast.Call) and ast.unparse(each.func).removeprefix("time.") in CLOCKS:
            return True
    return False


def timed_assertions(source: str) -> list[int]:
    """The lines of assertions about measured time."""
    tree = ast.parse(source)
    measured: set[str] = set()
    for _ in range(3):  # names computed from names
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and reads_clock(node.value, measured):
                measured |= {
                    ast.unparse(target)
                    for target in node.targets
                    if isinstance(target, ast.Name | ast.Attribute)
                }
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.Assert) and reads_clock(node.test, measured)
    ]
    return sorted(node.lineno for node in found)


def deadlines(source: str) -> list[int]:
    """The lines that give an example or a test a deadline."""
    return sorted(
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.keyword) and node.arg == "deadline")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.timeout")
    )


def test_no_test_asserts_how_long_something_took() -> None:
    found = {path.relative_to(ROOT).as_posix(): timed_assertions(path.read_text()) for path in TESTS}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_test_has_a_deadline() -> None:
    assert settings().deadline is None
    found = {
        path.relative_to(ROOT).as_posix(): deadlines(path.read_text()) for path in TESTS if path != PROFILE
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "assert time.monotonic() - begun < 3",
        "took = time.perf_counter() - begun\nassert took < 1",
        "self.at = time.time()\nage = now - self.at\nassert 2 > age, 'slow'",
    ],
)
def test_an_assertion_about_time_is_found(source: str) -> None:
    assert timed_assertions(source) == [source.count("\n") + 1]


def test_other_assertions_are_allowed() -> None:
    assert (
        timed_assertions("while time.monotonic() < end:\n    assert ping()\nassert clock.monotonic() == 3")
        == []
    )


def test_a_deadline_is_found() -> None:
    assert deadlines("@settings(deadline=200)\ndef test(): pass") == [1]
    assert deadlines("@pytest.mark.timeout(3)\ndef test(): pass") == [1]

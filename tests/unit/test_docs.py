"""The documents agree with the code: names exist, quoted numbers have the values of constants, the file map is current.

A number of the code is quoted in front of the reference to its constant:
"128 KiB (`wire/frame_reader.py::LARGE_FRAME_BYTES`)". In `docs/DESIGN.md` every number with a unit must have this form.
"""

from __future__ import annotations

import ast
import operator
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ottla"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
SYMBOL = re.compile(r"`([\w/]+\.pyx?)::([\w.]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"`([a-z][\w]*(?:/\w+)+\.pyx?)`")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
NUMBER = r"(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)"
QUOTED = re.compile(NUMBER + r"((?:\s+[A-Za-z]+){0,3})\s+\(`([\w/]+\.py)::([\w.]+)`\)")
WITH_UNIT = re.compile(NUMBER + r"\s+(KB|MB|GB|KiB|MiB|GiB|ms|s|seconds|minutes|hours)\b")
UNITS = {
    "KiB": Fraction(1 << 10),
    "MiB": Fraction(1 << 20),
    "GiB": Fraction(1 << 30),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "seconds": Fraction(1),
    "minutes": Fraction(60),
    "hours": Fraction(3600),
}
OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.LShift: lambda left, right: left * 2 ** int(right),
    ast.Pow: lambda left, right: left ** int(right),
}
TEST_FILE = re.compile(r"`((?:tests|tools|bench|fuzz)/[\w/]+\.(?:py|tsv|c))`")


def names_in(path: Path) -> set[str]:
    """What can be referred to in a source: functions, classes, methods, module variables and attributes."""
    if path.suffix == ".pyx":
        return set(re.findall(r"\w+", path.read_text()))
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    visit(ast.parse(path.read_text()).body, "")
    return found


def constant(path: Path, name: str) -> Fraction:
    """The value of a numeric constant of a module, or of the default of a field of a class in it."""
    body = ast.parse(path.read_text()).body
    *classes, name = name.split(".")
    scope = body
    for each in classes:
        scope = next(node for node in scope if isinstance(node, ast.ClassDef) and node.name == each).body

    def evaluate(node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return Fraction(str(node.value))
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](evaluate(node.left), evaluate(node.right))
        assert isinstance(node, ast.Name), f"{path}: {name} is not a constant expression"
        return find(body, node.id)

    def find(nodes: list[ast.stmt], wanted: str) -> Fraction:
        for node in nodes:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == wanted for target in targets):
                assert isinstance(node, ast.Assign | ast.AnnAssign)
                assert node.value is not None
                return evaluate(node.value)
        raise LookupError(f"{path} has no constant {wanted}")

    return find(scope, name)


def quoted(number: str, words: str) -> Fraction:
    """The number of a document in bytes, seconds or plain units."""
    unit = words.split(maxsplit=1)[0] if words.split() else ""
    return Fraction(number.replace(",", "")) * UNITS.get(unit, Fraction(1))


def in_seconds(name: str, value: Fraction) -> Fraction:
    """A constant in milliseconds, by its name, in seconds; other constants as they are."""
    return value / 1000 if re.search(r"_ms(_|$)", name.lower()) else value


def wrong_numbers(text: str) -> list[str]:
    """The quoted numbers that differ from their constants."""
    wrong = []
    for number, words, file, name in QUOTED.findall(FENCED.sub("", text)):
        actual = in_seconds(name, constant(PACKAGE / file, name))
        if quoted(number, words) != actual:
            wrong.append(f"{number}{words}: {file}::{name} is {float(actual):g}")
    return wrong


def test_the_command_reference_is_current() -> None:
    command = [sys.executable, "tools/command_reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == 0, "run python tools/command_reference.py"


def test_the_file_map_is_current() -> None:
    command = [sys.executable, "tools/file_map.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == 0, "run python tools/file_map.py"


@pytest.mark.parametrize("doc", DOCS, ids=lambda path: path.name)
def test_names_of_the_code_exist(doc: Path) -> None:
    missing = []
    for file, name in SYMBOL.findall(doc.read_text()):
        path = PACKAGE / file
        if not path.is_file() or name not in names_in(path):
            missing.append(f"{file}::{name}")
    assert missing == []


@pytest.mark.parametrize("doc", DOCS, ids=lambda path: path.name)
def test_modules_exist(doc: Path) -> None:
    missing = [
        file
        for file in MODULE.findall(doc.read_text())
        if not (PACKAGE / file).exists() and not (ROOT / file).exists() and "kNN" not in file
    ]
    assert missing == []


@pytest.mark.parametrize("doc", DOCS, ids=lambda path: path.name)
def test_quoted_numbers_are_those_of_the_code(doc: Path) -> None:
    assert wrong_numbers(doc.read_text()) == []


def test_numbers_with_a_unit_in_the_design_have_a_constant() -> None:
    text = FENCED.sub("", (ROOT / "docs" / "DESIGN.md").read_text())
    without = [match.group() for match in WITH_UNIT.finditer(text) if not QUOTED.match(text, match.start())]
    assert without == []
    assert len(QUOTED.findall(text)) > 15


@pytest.mark.parametrize(
    "text",
    [
        "64 KiB (`wire/frame_reader.py::LARGE_FRAME_BYTES`)",
        "up to 15 MiB\n(`broker/net/limits.py::Limits.connection_in_flight_bytes_max`)",
        "3 ms (`base/writer.py::_STALL_SECONDS`)",
        "1 s (`coordinator/txn/completion.py::RETRY_MS`)",
        "1,000 log records (`coordinator/runtime/loader.py::SLICE_RECORDS`)",
    ],
)
def test_wrong_numbers_are_found(text: str) -> None:
    assert len(wrong_numbers(text)) == 1


@pytest.mark.parametrize("doc", DOCS, ids=lambda path: path.name)
def test_links_and_files_exist(doc: Path) -> None:
    text = doc.read_text()
    broken = [link for link in LINK.findall(text) if not (doc.parent / link).exists()]
    broken += [file for file in TEST_FILE.findall(text) if not (ROOT / file).exists()]
    assert broken == []


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))

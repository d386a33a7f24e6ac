"""The documentation names what exists: the file map is current, every name in the text is in the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ottla"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
SYMBOL = re.compile(r"`([\w/]+\.pyx?)::([\w.]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
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
def test_links_and_files_exist(doc: Path) -> None:
    text = doc.read_text()
    broken = [link for link in LINK.findall(text) if not (doc.parent / link).exists()]
    broken += [file for file in TEST_FILE.findall(text) if not (ROOT / file).exists()]
    assert broken == []


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))

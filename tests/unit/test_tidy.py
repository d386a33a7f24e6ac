"""House rules that no linter knows, as tests: sizes, placeholders, docstrings, names."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "ottla").rglob("*.py"))
CHECKED = sorted(
    path
    for folder in ("src/ottla", "tests", "bench", "fuzz", "tools")
    for path in (ROOT / folder).rglob("*.py")
)
TEXTS = CHECKED + sorted(path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
LINES_MAX = 600
FUNCTION_LINES_MAX = 70
PLACEHOLDERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
MACHINE_PATHS = re.compile(r"/(work|root|home/\w+|tmp/\w+|Users/\w+)/")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def offenders(paths: list[Path], breaks: Callable[[Path], object]) -> dict[str, object]:
    """What each file that breaks a rule has to show for it; a rule holds when this is empty."""
    return {name_of(path): found for path in paths if (found := breaks(path))}


def test_the_sources_are_found() -> None:
    assert len(SOURCES) > 50


def test_a_file_has_at_most_600_lines() -> None:
    def too_long(path: Path) -> int:
        lines = len(path.read_text().splitlines())
        return lines if lines > LINES_MAX else 0

    assert offenders(CHECKED, too_long) == {}


def test_a_function_has_at_most_70_lines() -> None:
    def too_long(path: Path) -> dict[str, int]:
        nodes = ast.walk(tree_of(path))
        functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        sizes = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions}
        return {name: lines for name, lines in sizes.items() if lines > FUNCTION_LINES_MAX}

    assert offenders(SOURCES, too_long) == {}


def test_a_source_has_no_placeholder() -> None:
    assert offenders(SOURCES, lambda path: PLACEHOLDERS.findall(path.read_text())) == {}


def test_a_source_does_not_print() -> None:
    def prints(path: Path) -> list[int]:
        calls = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
        return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]

    assert offenders(SOURCES, prints) == {}


def test_a_module_has_a_docstring() -> None:
    def silent(path: Path) -> bool:
        tree = tree_of(path)
        return bool(tree.body) and not ast.get_docstring(tree)

    assert offenders(SOURCES, silent) == {}


def test_no_text_contains_a_path_of_a_machine() -> None:
    texts = [path for path in TEXTS if path != Path(__file__)]
    assert offenders(texts, lambda path: MACHINE_PATHS.findall(path.read_text())) == {}


def test_handlers_are_named_by_api_key() -> None:
    handlers = ROOT / "src" / "ottla" / "broker" / "handlers"
    names = [path.name for path in handlers.glob("*.py") if path.name != "__init__.py"]
    assert [name for name in names if not re.fullmatch(r"k\d\d_[a-z_]+\.py", name)] == []
    keys = [name[1:3] for name in names if not name.endswith("_metadata.py")]  # Fetch of the metadata log
    assert len(set(keys)) == len(keys), "one file per API key"


def test_every_kernel_has_a_plain_python_reference() -> None:
    """Beside `_noun.pyx`: `_reference.py`, `noun_reference.py`, or `noun.py` that can do without it."""
    for kernel in (ROOT / "src").rglob("*.pyx"):
        noun = kernel.stem.removeprefix("_")
        names = ("_reference.py", f"{noun}_reference.py", f"{noun}.py")
        assert any(kernel.with_name(name).exists() for name in names), f"{name_of(kernel)} stands alone"


def test_every_module_of_the_unit_tests_mirrors_a_source() -> None:
    """tests/unit/<package>/ for src/ottla/<package>/; what spans packages lives in another kind of test."""
    packages = {path.name for path in (ROOT / "src" / "ottla").iterdir() if path.is_dir()}
    mirrored = {path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir()} - {"__pycache__"}
    assert mirrored - packages == set()

"""No code, object or module is created from data: neither from records and requests, nor from settings."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src"
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__", "import_module", "execfile"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "jsonpickle"}
SHELL = {"system", "popen"}
ALLOWED = {
    ("ottla/wire/source.py", "exec"): "compiles codecs from the message declarations of this package",
    ("ottla/wire/source.py", "compile"): "compiles codecs from the message declarations of this package",
    ("ottla/broker/handlers/__init__.py", "import_module"): "imports every module of its own folder",
    ("ottla/cli/commands.py", "import_module"): "imports commands from the table in the same file",
    ("ottla/testing/fixtures/messages.py", "import_module"): "imports a message by the name of an API key",
    ("ottla/pipelines/declare.py", "import_module"): "runs the pipeline that the user names",
    ("ottla/pipelines/runtime/runner.py", "cloudpickle"): "registers the user's pipeline with Spark",
}


def unsafe(path: Path) -> set[str]:
    """The unsafe functions and modules that a source uses."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in UNSAFE_NAMES:
                found.add(called.id)
            elif isinstance(called, ast.Attribute) and called.attr in SHELL | {"import_module"}:
                found.add(called.attr)
            found |= {"shell=True"} if any(_is_shell(each) for each in node.keywords) else set()
        elif isinstance(node, ast.Import):
            found |= UNSAFE_MODULES & {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").partition(".")[0], *(alias.name for alias in node.names)}
            found |= UNSAFE_MODULES & names
    return found


def _is_shell(keyword: ast.keyword) -> bool:
    return keyword.arg == "shell" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True


def test_unsafe_calls_are_those_of_the_table() -> None:
    found = {(str(path.relative_to(ROOT)), name) for path in ROOT.rglob("*.py") for name in unsafe(path)}
    assert found == set(ALLOWED)


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    source = tmp_path / "unsafe.py"
    source.write_text(
        "import pickle\nfrom pyspark import cloudpickle\nimportlib.import_module(name)\neval(text)\n"
        "os.system(line)\nsubprocess.run(line, shell=True)\n"
    )
    assert unsafe(source) == {"pickle", "cloudpickle", "import_module", "eval", "system", "shell=True"}

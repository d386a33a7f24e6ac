"""Extensions of the request path: all are used if they belong to the sources, otherwise none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from ottla.base import compiled

USE = """
import importlib, json, pkgutil, sys
from ottla.base import compiled
used = compiled.use()
import ottla
from ottla.wire import frames
if sys.argv[1:] == ["all"]:
    for module in pkgutil.walk_packages(ottla.__path__, "ottla."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(json.dumps([used, frames.__file__]))
"""


def make_package(folder: Path) -> Path:
    """Two sources, and an extension of one of them that belongs to both."""
    (folder / compiled.FOLDER).mkdir()
    (folder / "one.py").write_text("A = 1\n")
    (folder / "two.py").write_text("B = 2\n")
    extension = Path(compiled.extension_file(str(folder / compiled.FOLDER), "package.one"))
    extension.touch()
    compiled.write_manifest(str(folder), str(folder / compiled.FOLDER), ["package.one"], ["two.py", "one.py"])
    return extension


def import_in_new_process(*arguments: str, **environment: str) -> tuple[bool, Path]:
    """Whether the extensions are used, and the file of a module that has one."""
    clean = {name: value for name, value in os.environ.items() if name != "OTTLA_PURE"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", USE, *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    used, file = json.loads(run.stdout.splitlines()[-1])
    return used, Path(file)


def test_extensions_belong_to_unchanged_sources(tmp_path: Path) -> None:
    extension = make_package(tmp_path)
    assert compiled.current_extensions(str(tmp_path)) == {"package.one": str(extension)}


@pytest.mark.parametrize("source", ["one.py", "two.py"])
def test_a_changed_source_excludes_all_extensions(tmp_path: Path, source: str) -> None:
    make_package(tmp_path)
    (tmp_path / source).write_text("A = 2\n")
    assert compiled.current_extensions(str(tmp_path)) == {}


def test_bytes_that_move_between_two_sources_are_a_change(tmp_path: Path) -> None:
    make_package(tmp_path)
    (tmp_path / "one.py").write_text("A = 1\nB = 2\n")
    (tmp_path / "two.py").write_text("")
    assert compiled.current_extensions(str(tmp_path)) == {}


@pytest.mark.parametrize("name", ["one.py", f"{compiled.FOLDER}/manifest.json"])
def test_a_missing_file_excludes_all_extensions(tmp_path: Path, name: str) -> None:
    make_package(tmp_path)
    (tmp_path / name).unlink()
    assert compiled.current_extensions(str(tmp_path)) == {}


def test_a_missing_extension_excludes_all_extensions(tmp_path: Path) -> None:
    make_package(tmp_path).unlink()
    assert compiled.current_extensions(str(tmp_path)) == {}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"sources": []}', '{"sources": ["one.py"], "digest": ""}'])
def test_a_damaged_manifest_excludes_all_extensions(tmp_path: Path, text: str) -> None:
    make_package(tmp_path)
    (tmp_path / compiled.FOLDER / "manifest.json").write_text(text)
    assert compiled.current_extensions(str(tmp_path)) == {}


def test_setup_compiles_where_there_is_a_compiler() -> None:
    """They may be older than the sources: then they are not used, and `make compile` replaces them."""
    compiler = os.environ.get("CC") or "cc"
    folder = Path(compiled.PACKAGE, compiled.FOLDER)
    assert shutil.which(compiler) is None or (folder / "manifest.json").exists(), "call make compile"


def test_a_process_that_asks_for_them_imports_the_extensions() -> None:
    expected = bool(compiled.current_extensions(compiled.PACKAGE))
    used, file = import_in_new_process()
    assert used is expected
    assert file.name.endswith(EXTENSION_SUFFIXES[0] if expected else ".py")


def test_plain_python_can_be_chosen() -> None:
    used, file = import_in_new_process(OTTLA_PURE="1")
    assert not used
    assert file.suffix == ".py"


def test_every_module_can_be_imported_beside_the_extensions() -> None:
    """A class that is not compiled cannot be derived from a compiled one; that fails when its module is imported."""
    assert import_in_new_process("all")[0] is bool(compiled.current_extensions(compiled.PACKAGE))


def test_this_process_runs_the_sources() -> None:
    from ottla.wire import frames

    assert Path(str(frames.__file__)).suffix == ".py"

"""Imports the modules of the request path in compiled form, in a process that runs a broker.

`setup.py` compiles the modules that `pyproject.toml` lists with mypyc. The extensions lie in `FOLDER`, where Python's
own import does not look: without `use`, every module is imported from its source. So tests, simulations and clients
always run the sources.

The machine code of a module contains what the sources of others said when it was compiled: constants, types, where an
object has its attributes. The manifest in `FOLDER` therefore names all sources that were read, and has a digest of
them. If one of them has changed since, no extension is used. All extensions are used or none: they share one library,
and a compiled class and the class of its source are different classes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from typing import Final

from ottla.base import native
from ottla.base.errors import invariant

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER: Final = "_compiled"
_MANIFEST: Final = "manifest.json"


def use(package: str = PACKAGE) -> bool:
    """Import the compiled modules from their extensions from now on, if those are up to date and wanted."""
    extensions = current_extensions(package) if native.WANTED else {}
    invariant(not sys.modules.keys() & extensions.keys(), "no module with an extension has been imported")
    if extensions:
        sys.meta_path.insert(0, _Finder(extensions))
    return bool(extensions)


def current_extensions(package: str) -> dict[str, str]:
    """The file of each extension by the name of its module; empty if they do not belong to the sources."""
    folder = os.path.join(package, FOLDER)
    try:
        with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        if _digest(package, manifest["sources"]) != manifest["digest"]:
            return {}
        found = {name: extension_file(folder, name) for name in manifest["modules"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if all(map(os.path.exists, found.values())) else {}


def extension_file(folder: str, module: str) -> str:
    """Where the extension of a module lies; its name tells the version of Python."""
    return os.path.join(folder, module + EXTENSION_SUFFIXES[0])


def write_manifest(package: str, folder: str, modules: Iterable[str], sources: Iterable[str]) -> None:
    """Complete `folder`; the sources are paths below `package`."""
    names = sorted(sources)
    manifest = {"modules": sorted(modules), "sources": names, "digest": _digest(package, names)}
    with open(os.path.join(folder, _MANIFEST), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)


def _digest(package: str, sources: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sources:
        with open(os.path.join(package, name), "rb") as file:
            content = file.read()
        digest.update(b"%d " % len(content))
        digest.update(content)
    return digest.hexdigest()


class _Finder:
    """Finds modules in the given files; a part of `sys.meta_path`."""

    def __init__(self, extensions: Mapping[str, str]) -> None:
        self._extensions = extensions

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        file = self._extensions.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, file))

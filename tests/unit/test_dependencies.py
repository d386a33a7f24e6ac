"""The imports in src are the dependencies that pyproject.toml declares, for the base and for each extra."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"ottla", "pyspark_ottla"}
EXTRA_OF = {
    "ottla/console": "console",
    "ottla/local/secure": "security",
    "ottla/security/sasl/kerberos": "gssapi",
    "ottla/security": "security",
    "ottla/spark": "spark",
    "ottla/testing/fixtures": "testing",
    "ottla/pipelines": "spark",
    "ottla/scoreboard": "spark",
    "pyspark_ottla": "spark",
}
"""The packages that may import what an extra installs; all others may import the base dependencies only."""
INDIRECT = {
    "pandas": "PySpark needs it for Arrow",
    "mkdocs-material": "builds the site of the documents",
}
"""Declared although no module imports them, and why."""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    names = (re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements)
    return {normalized(name[0]) for name in names if name is not None}


BASE = declared(PROJECT["dependencies"])
EXTRAS = {name: declared(found) for name, found in PROJECT["optional-dependencies"].items() if name != "dev"}


def imported(path: Path) -> set[str]:
    """The top-level modules that a source imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found - OURS - set(sys.stdlib_module_names)


def extra_of(path: Path) -> str | None:
    name = path.relative_to(SRC).as_posix()
    return next((extra for folder, extra in EXTRA_OF.items() if name.startswith(f"{folder}/")), None)


SOURCES = sorted(SRC.rglob("*.py"))
DISTRIBUTIONS = {
    module: {normalized(name) for name in names} for module, names in packages_distributions().items()
}


def test_every_import_is_declared() -> None:
    missing = []
    for path in SOURCES:
        extra = extra_of(path)
        allowed = BASE | (EXTRAS[extra] if extra is not None else set())
        for module in imported(path):
            if not DISTRIBUTIONS.get(module, {normalized(module)}) & allowed:
                missing.append(f"{path.relative_to(ROOT)} imports {module}")
    assert missing == [], "declare it in pyproject.toml, or do not import it there"


@pytest.mark.parametrize("name", sorted(BASE.union(*EXTRAS.values())))
def test_every_dependency_is_imported(name: str) -> None:
    modules = {module for path in SOURCES for module in imported(path)}
    users = [module for module in modules if name in DISTRIBUTIONS.get(module, {normalized(module)})]
    assert bool(users) != (name in INDIRECT), "remove it from pyproject.toml, or correct INDIRECT"


def test_the_lock_satisfies_every_requirement_and_has_hashes() -> None:
    """`make lock` writes it again after a change of pyproject.toml."""
    text = (ROOT / "requirements" / "dev.txt").read_text()
    blocks = re.findall(
        r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
    )
    locked = {normalized(name): Version(version) for name, version, _ in blocks}
    assert len(locked) == text.count("==")
    requirements = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    for extra in ("console", "security", "spark"):
        requirements += PROJECT["optional-dependencies"][extra]
    for text in requirements:
        wanted = Requirement(text)
        if wanted.name != "ottla":
            version = locked.get(normalized(wanted.name))
            assert version is not None and version in wanted.specifier, f"{text}: locked {version}"  # noqa: PT018

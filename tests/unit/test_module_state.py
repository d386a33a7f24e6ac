"""No module of a node has mutable state that two nodes in one process would share.

The simulator runs several nodes in one process. Tables that are complete when a module is imported, and caches of pure
functions, are harmless: they do not depend on a node. Anything else must belong to an object that a node creates.

What the scan finds: module-level containers that a function of any module modifies; module-level objects of mutable
types; `global` statements; cached methods, and cached functions without arguments. A finding that two nodes may share
is listed in `ALLOWED` with the reason. Packages that run in clients only are not scanned.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import struct
import types
import uuid
from collections.abc import Iterator
from enum import Enum
from functools import partial
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ottla"
NODE_PACKAGES = (
    "base",
    "broker",
    "config",
    "controller",
    "coordinator",
    "metadata",
    "node",
    "peer",
    "quorum",
    "records",
    "replication",
    "security",
    "storage",
    "wire",
)
ALLOWED = {
    "base/files.py::_libc": "functions of the C library",
    "broker/coordination/coordinators.py::_cached_partition": "a cache of a pure function of a name and a number",
    "broker/handlers/__init__.py::load_all": "a tuple of declarations, the same for all nodes",
    "broker/net/file_region.py::_probe": "a byte that is written and never read",
    "coordinator/group/classic/rebalance.py::_NOTHING": "a decision without records; no code modifies decisions",
    "storage/producers/producer_state.py::NOT_REQUIRED": "compared by identity; its fields are not used",
}
"""State that two nodes may share, and why."""
IMMUTABLE_TYPES = (
    int,
    float,
    str,
    bytes,
    frozenset,
    range,
    slice,
    tuple,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.GenericAlias,
    types.MappingProxyType,
    types.UnionType,
    types.NoneType,
    partial,
    re.Pattern,
    struct.Struct,
    uuid.UUID,
    Enum,
)
CONSTANT_CLASSES = frozenset({"ClientLimits", "Transitions"})
"""Classes of Ottla without a method that modifies the object."""
CONTAINERS = (dict, list, set, bytearray)
LOGGING_AND_TYPING = ("structlog.", "typing", "_typing", "logging", "cython")
CHANGING_METHODS = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "extendleft",
        "insert",
        "move_to_end",
        "pop",
    }
    | {"popitem", "popleft", "remove", "reverse", "setdefault", "sort", "subtract", "update"}
)
CACHES = frozenset({"cache", "lru_cache"})


def last_name(node: ast.expr) -> str:
    """`b` of `a.b`, of `b` and of `a.b()`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def assigned_names(tree: ast.Module) -> list[str]:
    """The names that the statements of a module assign."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            found += [target.id for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.append(statement.target.id)
    return [name for name in found if name != "__all__"]


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def changed_names(tree: ast.Module) -> set[str]:
    """Names that code inside of functions modifies: by index, by attribute, or by a method."""
    found = set()
    for function in functions_of(tree):
        local = {node.id for node in ast.walk(function) if _is_stored(node)}
        for node in ast.walk(function):
            changed: ast.expr | None = None
            if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                changed = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                changed = node.func.value if node.func.attr in CHANGING_METHODS else None
            if isinstance(changed, ast.Name) and changed.id not in local:
                found.add(changed.id)
    return found


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def declared_global(tree: ast.Module) -> set[str]:
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


def risky_caches(tree: ast.Module) -> set[str]:
    """Cached methods, and cached functions without arguments."""
    top = {id(node) for node in tree.body}
    return {
        function.name
        for function in functions_of(tree)
        if any(last_name(decorator) in CACHES for decorator in function.decorator_list)
        and (id(function) not in top or not function.args.args)
    }


def is_immutable(value: object) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return bool(value.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    if (config := getattr(type(value), "__struct_config__", None)) is not None:
        return bool(config.frozen)
    module = type(value).__module__
    known = isinstance(value, IMMUTABLE_TYPES) or type(value).__name__ in CONSTANT_CLASSES
    return known or module.startswith(LOGGING_AND_TYPING) or _has_no_state(value)


def _has_no_state(value: object) -> bool:
    """Whether an object has no attributes."""
    if isinstance(value, CONTAINERS):
        return False
    if isinstance(value, memoryview):
        return value.readonly or value.nbytes == 0
    return not hasattr(type(value), "__slots__") and not getattr(value, "__dict__", True)


def state_of(module: str, tree: ast.Module, changed_elsewhere: set[str]) -> dict[str, str]:
    """Module-level names with mutable state, and why they count as such."""
    changed = changed_names(tree) | changed_elsewhere
    loaded = importlib.import_module(module)
    found = dict.fromkeys(declared_global(tree), "assigned by a global statement")
    found |= dict.fromkeys(risky_caches(tree), "a cached method, or a cached function without arguments")
    for name in assigned_names(tree):
        value = getattr(loaded, name, None)
        if isinstance(value, CONTAINERS):
            if name in changed:
                found[name] = "a container that a function modifies"
        elif not is_immutable(value):
            found[name] = f"an object of the mutable type {type(value).__name__}"
    return found


def imported_and_changed(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """By module: the names that functions of other modules import from it and modify."""
    found: dict[str, set[str]] = {}
    for tree in trees.values():
        changed = changed_names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {alias.name for alias in node.names if (alias.asname or alias.name) in changed}
                found.setdefault(node.module, set()).update(names)
    return found


def test_no_module_has_state_that_two_nodes_would_share() -> None:
    paths = [path for package in NODE_PACKAGES for path in sorted((SOURCE / package).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text()) for path in paths if path.name != "__main__.py"}
    changed = imported_and_changed(trees)
    found: dict[str, str] = {}
    for path, tree in trees.items():
        relative = path.relative_to(SOURCE)
        module = ".".join(("ottla", *relative.with_suffix("").parts)).removesuffix(".__init__")
        state = state_of(module, tree, changed.get(module, set()))
        found |= {f"{relative.as_posix()}::{name}": why for name, why in state.items()}

    assert {name: why for name, why in found.items() if name not in ALLOWED} == {}
    assert sorted(set(ALLOWED) - set(found)) == [], "no longer needed in ALLOWED"


def test_every_package_of_a_node_is_scanned() -> None:
    clients_only = {
        "admin",
        "cli",
        "client",
        "console",
        "local",
        "pipelines",
        "scoreboard",
        "spark",
        "testing",
    }
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}

    assert packages - clients_only == set(NODE_PACKAGES)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    TABLE[3] = 4", {"TABLE"}),
        ("def f():\n    del TABLE[3]", {"TABLE"}),
        ("def f():\n    TABLE.update({3: 4})", {"TABLE"}),
        ("class A:\n    def f(self):\n        ITEMS.append(2)", {"ITEMS"}),
        ("def f():\n    CURRENT.node = 1", {"CURRENT"}),
        ("def f():\n    items = []\n    items.append(2)", set()),
        ("def f(self):\n    self.items.append(2)", set()),
        ("TABLE = {}\nTABLE[1] = 2", set()),
    ],
)
def test_the_scan_finds_modifications(source: str, found: set[str]) -> None:
    assert changed_names(ast.parse(source)) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@functools.lru_cache(maxsize=9)\ndef f(x): ...", set()),
        ("@cache\ndef f(): ...", {"f"}),
        ("class A:\n    @cache\n    def f(self): ...", {"f"}),
    ],
)
def test_the_scan_finds_caches_that_are_not_pure(source: str, found: set[str]) -> None:
    assert risky_caches(ast.parse(source)) == found


def test_the_scan_distinguishes_mutable_objects() -> None:
    @dataclasses.dataclass
    class Counter:
        value: int = 0

    class Registry:
        def __init__(self) -> None:
            self.items: list[int] = []

    assert not is_immutable(Counter())
    assert not is_immutable(Registry())
    assert not is_immutable(bytearray())
    assert is_immutable(dataclasses.make_dataclass("Point", ["x"], frozen=True)(1))
    assert is_immutable(re.compile("x"))

"""Which messages there are, and how to draw one of any class and version."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

import ottla.metadata.records
import ottla.wire.messages
from ottla.base.ids import Uuid
from ottla.wire.schema import Field, Message, fields_of

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_BYTES = st.binary(max_size=12)
# Lengths that need a second byte as a varint.
_LONG_TEXT = st.integers(126, 300).map("x".__mul__)


# What to draw for a field instead of any value of its type, or None.
Special = Callable[[Field], st.SearchStrategy[Any] | None]


def no_special(field: Field) -> None:
    """Any value will do."""


def message_classes() -> list[type[Message]]:
    """Every declared message: requests, responses, headers, log records."""
    names = [module.name for module in pkgutil.iter_modules(ottla.wire.messages.__path__)]
    modules = [importlib.import_module(f"ottla.wire.messages.{name}") for name in names]
    modules.append(ottla.metadata.records)
    return [found for module in modules for found in vars(module).values() if _is_whole_message(found)]


def _is_whole_message(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Message) and hasattr(found, "SPEC")


def all_versions() -> list[tuple[type[Message], int]]:
    return [(message, version) for message in message_classes() for version in message.SPEC.versions]


@cache
def instances(message: type[Message], version: int, special: Special = no_special) -> st.SearchStrategy[Any]:
    """Messages that can be written in a version: fields it lacks keep their default."""
    fields = {
        field.name: _values(field, version, special)
        for field in fields_of(message)
        if version in field.wire.versions
    }
    return st.builds(message, **fields)


def _values(field: Field, version: int, special: Special) -> st.SearchStrategy[Any]:
    chosen = special(field)
    if chosen is not None:
        return chosen
    struct = field.struct
    values = _scalars(field.element_kind) if struct is None else instances(struct, version, special)
    if field.is_array:
        values = st.lists(values, max_size=3)
    return st.none() | values if version in field.wire.nullable else values


def _scalars(kind: str) -> st.SearchStrategy[Any]:
    if kind in _INTEGERS:
        return st.integers(*_INTEGERS[kind])
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.uuids().map(lambda drawn: Uuid(int=drawn.int)),
        "string": _TEXT | _LONG_TEXT,
        "bytes": _BYTES,
        "records": _BYTES.map(memoryview),
    }[kind]

"""The decoder charges every array of every message against its memory budget, at every level of nesting.

For each message, version and array field, a message with many elements in that one array is decoded. What the decoded
message occupies must have been charged, and half of that budget must be refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.base.ids import Uuid
from ottla.wire import codec
from ottla.wire.codec import Budget
from ottla.wire.schema import Field, Message, fields_of
from tests.property.messages import message_classes

ELEMENTS = 120
LARGE = 1 << 30
Path = tuple[Field, ...]


def array_paths(message: type[Message], version: int, above: Path = ()) -> Iterator[Path]:
    """The arrays of a message in a version, each with the fields above it."""
    for field in fields_of(message):
        if version not in field.wire.versions:
            continue
        path = (*above, field)
        if field.is_array:
            yield path
        if field.struct is not None:
            yield from array_paths(field.struct, version, path)


class Maker:
    """Makes messages whose values share no memory."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._numbers = count(1000)

    def message(self, message: type[Message], path: Path) -> Message:
        """One element in each array above the last of `path`, and many in that one; all others are empty."""
        values = {
            field.name: self._value(field, path)
            for field in fields_of(message)
            if self._version in field.wire.versions
        }
        return message(**values)

    def _value(self, field: Field, path: Path) -> Any:
        on_path = bool(path) and field is path[0]
        if field.is_array:
            elements = (ELEMENTS if len(path) == 1 else 1) if on_path else 0
            return [self._element(field, path[1:]) for _ in range(elements)]
        if field.struct is not None:
            if not on_path and self._version in field.wire.nullable:
                return None
            return self.message(field.struct, path[1:] if on_path else ())
        return self._element(field, ())

    def _element(self, field: Field, path: Path) -> Any:
        if field.struct is not None:
            return self.message(field.struct, path)
        number, kind = next(self._numbers), field.element_kind
        if kind == "bool":
            return True
        if kind == "float64":
            return float(number)
        if kind == "uuid":
            return Uuid(int=number)
        if kind == "string":
            return f"s{number}"
        if kind in ("bytes", "records"):
            return b"b%d" % number
        return number % 100 if kind == "int8" else number


def occupied_bytes(value: Any, version: int) -> int:
    """What a decoded value holds in memory: fields that the version lacks share their defaults."""
    size = sys.getsizeof(value)
    if isinstance(value, Message):
        own = [field.name for field in fields_of(type(value)) if version in field.wire.versions]
        return size + sum(occupied_bytes(getattr(value, name), version) for name in own)
    if isinstance(value, list):
        return size + sum(occupied_bytes(each, version) for each in value)
    return 0 if value is None or isinstance(value, bool) else size


def name_of(path: Path) -> str:
    return ".".join(field.name for field in path)


@pytest.mark.parametrize("message", message_classes(), ids=lambda message: message.__name__)
def test_every_array_is_charged(message: type[Message]) -> None:
    seen: set[str] = set()
    for version in message.SPEC.versions:
        for path in array_paths(message, version):
            raw = codec.encode(Maker(version).message(message, path), version)
            budget = Budget(LARGE)
            made = codec.decode(message, raw, version, budget=budget)
            occupied, spent = occupied_bytes(made, version), budget.spent
            case = f"{message.__name__} v{version} {name_of(path)}: {occupied} bytes, {spent} charged"

            assert occupied > ELEMENTS, case
            assert spent >= occupied, case
            half = Budget(0, allowance_bytes=spent // 2)
            with pytest.raises(RemoteProtocolError, match="budget"):
                codec.decode(message, raw, version, budget=half)
            seen.add(name_of(path))
    expected = {name_of(path) for version in message.SPEC.versions for path in array_paths(message, version)}
    assert seen == expected


def test_arrays_of_several_levels_are_covered() -> None:
    """The deepest array of each message, of those with more than one level."""
    depths = [
        max((sum(field.is_array for field in path) for path in array_paths(message, version)), default=0)
        for message in message_classes()
        for version in message.SPEC.versions[-1:]
    ]
    assert sum(depth >= 2 for depth in depths) > 30
    assert sum(depth >= 3 for depth in depths) >= 3

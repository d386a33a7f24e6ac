"""Declarations of messages.

A message is one class for all its versions. Each field declares its type and the versions that have it:

    class MetadataRequest(Message):
        SPEC: ClassVar[Spec] = Spec("request", api_key=3, versions="0-13", flexible="9+")

        topics: Annotated[list[MetadataRequestTopic] | None, F("[]struct", "0+", nullable="1+")] = []
        allow_auto_topic_creation: Annotated[bool, F("bool", "4+")] = True

Every field has a default, which is also its value in versions without the field. Messages are built with keyword
arguments. Structs inside a message have no `SPEC`: they use the versions of their message. Annotations are
evaluated by `fields_of` only, which keeps imports fast.

`wire.decoder` and `wire.encoder` generate code from the declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import msgspec

from ottla.base.errors import invariant

Kind = Literal["request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value"]

SCALARS = frozenset({"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid"})
TEXTS = frozenset({"string", "bytes", "records"})
NEVER = range(0)
Records = bytes | bytearray | memoryview
# Versions are int16 on the wire: an open range ends there.
VERSION_END = 1 << 15


@cache
def version_range(text: str) -> range:
    """`"3+"`, `"2-5"`, `"4"` or `"none"` as a range of versions."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_END)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class F:
    """Encoding of one field: its type, the versions that have it, and the differences between versions.

    `kind` is a scalar, "string", "bytes", "records", "struct", or one of these after "[]" for an array. `nullable` are
    the versions that allow null, `tagged` those in which the field is a tagged field with number `tag`. An `ignorable`
    field is omitted if a version does not have it; any other field must then have its default.
    `flexible="none"` keeps the fixed-size length in all versions.
    """

    __slots__ = ("flexible", "ignorable", "kind", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        *,
        nullable: str = "none",
        tag: int = -1,
        tagged: str = "none",
        ignorable: bool = False,
        flexible: str | None = None,
    ) -> None:
        self.kind = kind
        self.versions = version_range(versions)
        self.nullable = version_range(nullable)
        self.tag = tag
        self.tagged = version_range(tagged)
        self.ignorable = ignorable
        self.flexible = None if flexible is None else version_range(flexible)


class Spec:
    """Declaration of a message: its kind, API key and versions."""

    __slots__ = ("api_key", "flexible", "kind", "versions")

    def __init__(self, kind: Kind, *, versions: str, flexible: str, api_key: int = -1) -> None:
        self.kind = kind
        self.api_key = api_key
        self.versions = version_range(versions)
        self.flexible = version_range(flexible)


class Message(msgspec.Struct, kw_only=True, gc=False):
    """Base class of all messages and of the structs inside them.

    Messages are trees without cycles, so they are excluded from garbage collection (`gc=False`).
    """

    SPEC: ClassVar[Spec]


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field of a class, resolved."""

    name: str
    wire: F
    default: Any
    # The class of the struct, or of the elements of an array of structs.
    struct: type[Message] | None

    @property
    def is_array(self) -> bool:
        return self.wire.kind.startswith("[]")

    @property
    def element_kind(self) -> str:
        return self.wire.kind.removeprefix("[]")


def _struct_class(hint: Any) -> type[Message] | None:
    """The message class named anywhere in a type such as `list[X] | None`."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint if issubclass(hint, Message) else None
    return next((found for argument in get_args(hint) if (found := _struct_class(argument))), None)


@cache
def fields_of(message: type[Message]) -> tuple[Field, ...]:
    """The declared fields of a class in wire order."""
    hints = get_type_hints(message, include_extras=True)
    blank = message()
    found = []
    for name in message.__struct_fields__:
        hint = hints[name]
        invariant(
            get_origin(hint) is Annotated, f"{message.__name__}.{name} has no annotation for its encoding"
        )
        python_type, wire = get_args(hint)
        struct = _struct_class(python_type)
        invariant(
            (wire.kind.removeprefix("[]") == "struct") == (struct is not None),
            f"{message.__name__}.{name}: wire type and Python type disagree",
        )
        found.append(Field(name, wire, getattr(blank, name), struct))
    return tuple(found)

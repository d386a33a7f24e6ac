"""Requests as sequences of tokens: the encoded values of a frame, each with its kind and the field that it encodes.

A token is the smallest unit that a mutation replaces: an integer, a length, the bytes of a string, a number of
elements. Every mutation of a frame is therefore a replacement of a few byte strings in a list, followed by one `join`,
which is much faster than to encode a message again. `Arrays` are the ranges of tokens that a mutation can repeat.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.wire.apis import is_flexible
from ottla.wire.schema import Field, Message
from ottla.wire.source import SCALAR_CODES, Layout

SCALARS = frozenset(SCALAR_CODES)
HEADER_TOKENS = 6
"""Size, API key, version, correlation id, length of the client id, client id: tokens before the message."""
Value = Callable[[Field, str], Any]
"""The value of a field; the second argument is the path of the field."""


class Token(NamedTuple):
    """The kind of a token (a scalar, a length or count, `text`, `records`, `tags`, `tag`, `present`), and its field."""

    kind: str
    path: str


class Elements(NamedTuple):
    """The elements of one array: the token of their number, and the range of tokens of each element."""

    count: int
    ranges: tuple[tuple[int, int], ...]
    flexible: bool


@dataclass(slots=True)
class TokenFrame:
    """A request frame with its size, as tokens."""

    api_key: int
    version: int
    parts: list[bytes] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    arrays: list[Elements] = field(default_factory=list)

    def add(self, kind: str, path: str, data: bytes) -> None:
        self.parts.append(data)
        self.tokens.append(Token(kind, path))


def uvarint(value: int) -> bytes:
    """An unsigned varint of up to 5 bytes (or more, if the value needs them)."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def sized(parts: list[bytes]) -> bytes:
    """Join the parts of a frame, with its size in the first one."""
    body = b"".join(parts[1:])
    return len(body).to_bytes(4, "big") + body


def tokenize(message: type[Message], version: int, value: Value, correlation_id: int = 1) -> TokenFrame:
    """Encode a request with the values that `value` returns for its fields."""
    key = message.SPEC.api_key
    frame = TokenFrame(key, version)
    frame.add("size", "size", bytes(4))
    frame.add("int16", "header.api_key", struct.pack(">h", key))
    frame.add("int16", "header.api_version", struct.pack(">h", version))
    frame.add("int32", "header.correlation_id", struct.pack(">i", correlation_id))
    frame.add("length", "header.client_id", struct.pack(">h", 4))
    frame.add("text", "header.client_id", b"fuzz")
    if is_flexible(key, version):
        frame.add("tags", "header", b"\0")
    _Encoder(frame, version, value).struct(message, version in message.SPEC.flexible, "")
    return frame


class _Encoder:
    def __init__(self, frame: TokenFrame, version: int, value: Value) -> None:
        self._frame = frame
        self._version = version
        self._value = value

    def struct(self, message: type[Message], flexible: bool, path: str) -> None:
        layout = Layout(message, self._version, flexible=flexible)
        for each in layout.plain:
            self._field(each, flexible, f"{path}.{each.name}")
        if not flexible:
            return
        self._frame.add("tags", path, uvarint(len(layout.tagged)))
        for each in layout.tagged:
            self._tagged(each, f"{path}.{each.name}")

    def _tagged(self, known: Field, path: str) -> None:
        """A tagged field: its size is known after its value is encoded."""
        frame = self._frame
        frame.add("tag", path, uvarint(known.wire.tag))
        at = len(frame.parts)
        frame.add("compact length", path, b"")
        self._field(known, True, path)
        frame.parts[at] = uvarint(sum(map(len, frame.parts[at + 1 :])))

    def _field(self, known: Field, struct_flexible: bool, path: str) -> None:
        value = self._value(known, path)
        while value is None and self._version not in known.wire.nullable:
            value = self._value(known, path)
        kind = known.wire.kind
        flexible = struct_flexible and (known.wire.flexible is None or self._version in known.wire.flexible)
        if kind in SCALARS:
            self._scalar(kind, value, path)
        elif known.is_array:
            self._array(known, value, flexible, path)
        elif known.struct is not None:
            if self._version in known.wire.nullable:
                self._frame.add("present", path, b"\xff" if value is None else b"\x01")
                if value is None:
                    return
            self.struct(known.struct, struct_flexible, path)
        else:
            self._text(kind, value, flexible, path)

    def _scalar(self, kind: str, value: Any, path: str) -> None:
        raw = value.bytes if kind == "uuid" else value
        self._frame.add(kind, path, struct.pack(f">{SCALAR_CODES[kind]}", raw))

    def _text(self, kind: str, value: Any, flexible: bool, path: str) -> None:
        if value is None:
            self._length(-1, "h" if kind == "string" else "i", flexible, path)
            return
        data = value.encode() if isinstance(value, str) else bytes(value)
        self._length(len(data), "h" if kind == "string" else "i", flexible, path)
        self._frame.add("records" if kind == "records" else "text", path, data)

    def _length(self, length: int, code: str, flexible: bool, path: str, kind: str = "length") -> None:
        if flexible:
            self._frame.add(f"compact {kind}", path, uvarint(length + 1))
        else:
            self._frame.add(kind, path, struct.pack(f">{code}", length))

    def _array(self, known: Field, value: Any, flexible: bool, path: str) -> None:
        """`value` is the list of elements; for structs their number."""
        frame = self._frame
        count = -1 if value is None else value if isinstance(value, int) else len(value)
        at = len(frame.parts)
        self._length(count, "i", flexible, path, "count")
        ranges = []
        for index in range(max(0, count)):
            start = len(frame.parts)
            if known.struct is not None:
                self.struct(known.struct, flexible, path)
            elif known.element_kind in SCALARS:
                self._scalar(known.element_kind, value[index], path)
            else:
                self._text(known.element_kind, value[index], flexible, path)
            ranges.append((start, len(frame.parts)))
        frame.arrays.append(Elements(at, tuple(ranges), flexible))

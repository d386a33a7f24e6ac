"""Reader for DER, the encoding of certificates: elements with a tag and a content, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_ID: Final = 0x06
SEQUENCE: Final = 0x30


class DerError(ValueError):
    """The bytes are not DER, or not the expected structure."""


class Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes
    """The whole element, with tag and length."""

    def children(self) -> list[Element]:
        return list(elements(self.content))


def elements(data: bytes) -> Iterator[Element]:
    """The elements of which `data` consists; DerError if it ends within one."""
    position = 0
    while position < len(data):
        start = position
        tag, length, position = _header(data, position)
        end = position + length
        if end > len(data):
            raise DerError("an element is longer than its container")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def only(data: bytes, tag: int) -> Element:
    """The single element of `data`, which must have this tag."""
    found = next(elements(data), None)
    if found is None or found.tag != tag:
        raise DerError(f"expected an element with tag {tag:#x}")
    return found


def object_id(content: bytes) -> str:
    """An object identifier in dotted form."""
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier is incomplete")
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _header(data: bytes, position: int) -> tuple[int, int, int]:
    if position + 2 > len(data):
        raise DerError("an element has no length")
    tag, length = data[position], data[position + 1]
    position += 2
    if length < 0x80:
        return tag, length, position
    size = length & 0x7F
    if not 1 <= size <= 4 or position + size > len(data):
        raise DerError("an element has an invalid length")
    return tag, int.from_bytes(data[position : position + size], "big"), position + size

"""Variable-length integers of the Kafka protocol: the only Python code that reads or writes them.

A varint holds seven bits per byte, lowest first; the high bit of a byte is set if another byte follows. The protocol
uses two forms:

- unsigned (`uvarint`): lengths and tags of flexible message versions. Kafka reads at most five bytes into a signed
  32-bit number: the upper bits of the fifth byte are dropped, and a large value becomes negative.
- zig-zag (`varint`): the fields of a record. 0, -1, 1, -2 ... are stored as 0, 1, 2, 3 ..., in at most five bytes for
  32 bits and ten bytes for 64 bits. Bits beyond the width are dropped.

The compiled kernels have the same functions in `ottla/records/_inline.pxd`. Pure functions.
"""

from __future__ import annotations

from ottla.base.errors import RemoteProtocolError

Source = bytes | bytearray | memoryview

_ONE_BYTE = tuple(bytes((value,)) for value in range(128))


class MalformedVarint(ValueError):
    """Bytes that are not a varint."""


class VarintCut(MalformedVarint):
    """The bytes end within a varint."""


class VarintTooLong(MalformedVarint):
    """A varint has more bytes than its width allows."""


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned number."""
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint_bytes(value: int) -> int:
    """The number of bytes of `encode_uvarint(value)`."""
    return max(1, (value.bit_length() + 6) // 7)


def read_uvarint(data: Source, position: int) -> tuple[int, int]:
    """Read an unsigned varint as a signed 32-bit number; return it and the position after it.

    Raise IndexError if the bytes end early and RemoteProtocolError if the varint is too long.
    """
    first = data[position]
    return (first, position + 1) if first < 128 else read_uvarint_rest(data, position + 1, first)


def read_uvarint_rest(data: Source, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte has its high bit set; see `read_uvarint`."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            value &= 0xFFFF_FFFF
            return (value - (1 << 32) if value >> 31 else value), position
    raise RemoteProtocolError("a varint is longer than 5 bytes")


def decode_uvarints(data: Source, bytes_each_max: int) -> list[int]:
    """Decode bytes that consist of unsigned varints only. Raise VarintCut or VarintTooLong."""
    numbers: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
        elif shift >= 7 * bytes_each_max:
            raise VarintTooLong(f"a varint is longer than {bytes_each_max} bytes")
    if shift:
        raise VarintCut("the bytes end within a varint")
    return numbers


def append_varint(out: bytearray, value: int) -> None:
    """Append a signed number of up to 64 bits in zig-zag form."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def read_varint(data: Source, position: int, end: int, bits: int = 32) -> tuple[int, int]:
    """Read a zig-zag varint that ends before `end`; return the number and the position after it.

    Raise VarintCut or VarintTooLong.
    """
    raw = 0
    for shift in range(0, bits, 7):
        if position >= end:
            raise VarintCut("the bytes end within a varint")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= (1 << bits) - 1
            return (raw >> 1) ^ -(raw & 1), position
    raise VarintTooLong(f"a varint is longer than {bits} bits allow")

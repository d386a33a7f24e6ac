"""Encoding of finished offsets above a committed offset, as the metadata text of a commit.

    ottla1 <kind> base64url(crc32 of base and body, 4 bytes | body)

    kind r   ranges: two varints for each range of finished offsets, the number of unfinished offsets before it
             (since the previous range, or the base) and the number of its offsets
    kind b   bits: bit i of byte n, lowest first, is set if offset base + 8n + i is finished

The shorter one is used. Offsets that do not fit are cut off at the end: a restart then repeats more records, and
the caller is notified that it should stop reading. The checksum covers the committed offset: a text that a tool
kept while it changed the offset, or a text of another program, is ignored.

Pure functions.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Sequence

from ottla.base.varint import MalformedVarint, decode_uvarints, encode_uvarint, uvarint_bytes

OffsetRange = tuple[int, int]
"""Offsets from the first, inclusive, to the second, exclusive. Sequences ascend, with a gap between two ranges."""

_PREFIX = "ottla1"
_HEAD = len(_PREFIX) + 1
_CRC_BYTES = 4
_VARINT_BYTES_MAX = 9


def body_bytes_max(text_bytes_max: int) -> int:
    """The number of bytes of ranges or bits that fit into a text of that length."""
    return max(0, (text_bytes_max - _HEAD) * 3 // 4 - _CRC_BYTES)


def certainly_fits(unfinished: int, span: int, bytes_max: int) -> bool:
    """Whether the text fits in any case, without encoding it: n unfinished offsets separate at most n + 1 ranges."""
    space = body_bytes_max(bytes_max)
    return span <= 8 * space or (unfinished + 1) * 2 * uvarint_bytes(span) <= space


def encode(base: int, finished: Sequence[OffsetRange], bytes_max: int) -> tuple[str, bool]:
    """The text for a commit of `base`, and whether it contains all ranges."""
    if not finished:
        return "", True
    space = body_bytes_max(bytes_max)
    ranges, ranges_encoded = _encode_ranges(base, finished, space)
    bits_bytes = (finished[-1][1] - base + 7) // 8
    if ranges_encoded == len(finished) and len(ranges) <= bits_bytes:
        return _text("r", base, ranges), True
    if bits_bytes <= space:
        return _text("b", base, _encode_bits(base, finished)), True
    fitting = _clip(finished, base + 8 * space)
    if sum(end - start for start, end in fitting) > sum(
        end - start for start, end in finished[:ranges_encoded]
    ):
        return _text("b", base, _encode_bits(base, fitting)), False
    return _text("r", base, ranges) if ranges else "", ranges_encoded == len(finished)


def decode(base: int, text: str | None) -> tuple[OffsetRange, ...]:
    """The finished ranges above a committed `base`; none if the text is invalid or belongs to another offset."""
    if not text or not text.startswith(_PREFIX) or len(text) <= _HEAD:
        return ()
    try:
        packed = text[_HEAD:].encode("ascii")
        raw = base64.b64decode(packed + b"=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return ()
    body = raw[_CRC_BYTES:]
    if len(raw) <= _CRC_BYTES or raw[:_CRC_BYTES] != _crc(base, body):
        return ()
    kind = text[len(_PREFIX)]
    if kind == "r":
        return _decode_ranges(base, body)
    return _decode_bits(base, body) if kind == "b" else ()


def _text(kind: str, base: int, body: bytes) -> str:
    packed = base64.urlsafe_b64encode(_crc(base, body) + body).rstrip(b"=").decode()
    return f"{_PREFIX}{kind}{packed}"


def _crc(base: int, body: bytes) -> bytes:
    return zlib.crc32(body, zlib.crc32(base.to_bytes(8, "big"))).to_bytes(_CRC_BYTES, "big")


def _encode_ranges(base: int, finished: Sequence[OffsetRange], space: int) -> tuple[bytes, int]:
    """Encode as many ranges as fit; also return their number."""
    body = bytearray()
    previous_end = base
    for number, (start, end) in enumerate(finished):
        pair = encode_uvarint(start - previous_end) + encode_uvarint(end - start)
        if len(body) + len(pair) > space:
            return bytes(body), number
        body += pair
        previous_end = end
    return bytes(body), len(finished)


def _decode_ranges(base: int, body: bytes) -> tuple[OffsetRange, ...]:
    try:
        numbers = decode_uvarints(body, _VARINT_BYTES_MAX)
    except MalformedVarint:
        return ()
    if len(numbers) % 2:
        return ()
    ranges: list[OffsetRange] = []
    at = base
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        ranges.append((at + gap, at + gap + length))
        at += gap + length
    return tuple(ranges)


def _encode_bits(base: int, finished: Sequence[OffsetRange]) -> bytes:
    bits = 0
    for start, end in finished:
        bits |= ((1 << (end - start)) - 1) << (start - base)
    return bits.to_bytes((finished[-1][1] - base + 7) // 8, "little")


def _decode_bits(base: int, body: bytes) -> tuple[OffsetRange, ...]:
    bits = bin(int.from_bytes(body, "little"))[:1:-1]
    return tuple((base + ones.start(), base + ones.end()) for ones in re.finditer("1+", bits))


def _clip(finished: Sequence[OffsetRange], end_max: int) -> list[OffsetRange]:
    return [(start, min(end, end_max)) for start, end in finished if start < end_max]

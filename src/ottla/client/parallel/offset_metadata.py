"""The finished offsets above a committed one, as the text that a commit may carry.

    ottla1 <kind> base64url(crc32 of base and body, 4 bytes | body)

    kind r   runs: for each run of finished offsets two varints, how many unfinished offsets lie before it
             (since the run before, or the base) and how many offsets it has
    kind b   bits: bit i of byte n, lowest first, says whether offset base + 8n + i is finished

The shorter of the two is taken. What does not fit is cut off at the end: a restart repeats a little more, and
the caller learns that it should not read on. The checksum covers the committed offset, so a text that some tool
kept while it moved the offset is not believed; neither is a text of anybody else: both read as "nothing known".

Pure functions.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Sequence

from ottla.base.varint import MalformedVarint, decode_uvarints, encode_uvarint, uvarint_bytes

Run = tuple[int, int]
"""Offsets from the first, inclusive, to the second, exclusive. In a sequence: ascending, never touching."""

_PREFIX = "ottla1"
_HEAD = len(_PREFIX) + 1
_CRC_BYTES = 4
_VARINT_BYTES_MAX = 9


def body_bytes_max(text_bytes_max: int) -> int:
    """How many bytes of runs or bits fit into a text of that length."""
    return max(0, (text_bytes_max - _HEAD) * 3 // 4 - _CRC_BYTES)


def surely_fits(unfinished: int, span: int, bytes_max: int) -> bool:
    """A bound without encoding: between n unfinished offsets lie at most n + 1 runs of finished ones."""
    room = body_bytes_max(bytes_max)
    return span <= 8 * room or (unfinished + 1) * 2 * uvarint_bytes(span) <= room


def encode(base: int, finished: Sequence[Run], bytes_max: int) -> tuple[str, bool]:
    """The text for a commit of `base`, and whether all runs are in it."""
    if not finished:
        return "", True
    room = body_bytes_max(bytes_max)
    runs, runs_told = _encode_runs(base, finished, room)
    bits_bytes = (finished[-1][1] - base + 7) // 8
    if runs_told == len(finished) and len(runs) <= bits_bytes:
        return _text("r", base, runs), True
    if bits_bytes <= room:
        return _text("b", base, _encode_bits(base, finished)), True
    fitting = _clip(finished, base + 8 * room)
    if sum(end - start for start, end in fitting) > sum(end - start for start, end in finished[:runs_told]):
        return _text("b", base, _encode_bits(base, fitting)), False
    return _text("r", base, runs) if runs else "", runs_told == len(finished)


def decode(base: int, text: str | None) -> tuple[Run, ...]:
    """The finished runs above a committed `base`; none for a text that is not ours, or not of this offset."""
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
        return _decode_runs(base, body)
    return _decode_bits(base, body) if kind == "b" else ()


def _text(kind: str, base: int, body: bytes) -> str:
    packed = base64.urlsafe_b64encode(_crc(base, body) + body).rstrip(b"=").decode()
    return f"{_PREFIX}{kind}{packed}"


def _crc(base: int, body: bytes) -> bytes:
    return zlib.crc32(body, zlib.crc32(base.to_bytes(8, "big"))).to_bytes(_CRC_BYTES, "big")


def _encode_runs(base: int, finished: Sequence[Run], room: int) -> tuple[bytes, int]:
    """As many runs as fit, and how many those are."""
    body = bytearray()
    told_to = base
    for number, (start, end) in enumerate(finished):
        pair = encode_uvarint(start - told_to) + encode_uvarint(end - start)
        if len(body) + len(pair) > room:
            return bytes(body), number
        body += pair
        told_to = end
    return bytes(body), len(finished)


def _decode_runs(base: int, body: bytes) -> tuple[Run, ...]:
    try:
        numbers = decode_uvarints(body, _VARINT_BYTES_MAX)
    except MalformedVarint:
        return ()
    if len(numbers) % 2:
        return ()
    runs: list[Run] = []
    at = base
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        runs.append((at + gap, at + gap + length))
        at += gap + length
    return tuple(runs)


def _encode_bits(base: int, finished: Sequence[Run]) -> bytes:
    bits = 0
    for start, end in finished:
        bits |= ((1 << (end - start)) - 1) << (start - base)
    return bits.to_bytes((finished[-1][1] - base + 7) // 8, "little")


def _decode_bits(base: int, body: bytes) -> tuple[Run, ...]:
    bits = bin(int.from_bytes(body, "little"))[:1:-1]
    return tuple((base + ones.start(), base + ones.end()) for ones in re.finditer("1+", bits))


def _clip(finished: Sequence[Run], end_max: int) -> list[Run]:
    return [(start, min(end, end_max)) for start, end in finished if start < end_max]

"""Mutations of frames: of single tokens, of arrays, of tagged fields, of the whole frame, of record batches.

`edges` are all replacements of one token; the systematic sweep tries each of them. `mutate` applies a few mutations,
chosen by random numbers. Both are functions of their arguments: the same random numbers give the same frames.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from functools import cache

from fuzz.frames.tokens import TokenFrame, sized, uvarint
from fuzz.frames.values import BOUNDS, HOSTILE_TEXTS
from ottla.records.batch import HEADER_SIZE, compute_crc
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.source import SCALAR_CODES

HUGE = 2**31 - 1
_COMPACT = (
    *map(uvarint, (0, 1, 2, 3, 127, 128, 16384, 32768, 32769, 2**24, HUGE, 2**31, 2**32 - 1)),
    b"\x80\x00",
    b"\xff" * 5 + b"\x01",
    b"\xff" * 11,
    b"\x80",
)
_LENGTHS = tuple(struct.pack(">h", value) for value in (-32768, -2, -1, 0, 1, 255, 32767))
_COUNTS = tuple(struct.pack(">i", value) for value in (-(2**31), -2, -1, 0, 1, 2, 1000, 2**24, HUGE))
_TEXTS = (
    *(text.encode() for text in HOSTILE_TEXTS),
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"9" * 5000,
    b"a" * 32_767,
    b"\xff" * 12_000,
)
_LONG_TEXTS = 3
_LONG_CHANCE = 0.03
_TAGS = (
    b"\x01\x00\x00",
    b"\x01\x05\x00",
    b"\x02\x05\x00\x05\x00",
    b"\x01\x05\x01\x00",
    b"\x01\xff\xff\xff\xff\x0f\x00",
    b"\x01\x00\xff\xff\xff\xff\x0f",
    b"\x81\x01" + b"\x05\x00" * 129,
    b"\xff\xff\xff\xff\x07",
    b"\x01\x00\x08" + bytes(8),
    b"\x02\x00\x01\x00\x00\x01\x00",
    b"\x01\x63\xc8\x01" + bytes(200),
)
_BOMB_CHANCE = 0.01
_CUTS = 150
_MANY = (2, 2, 3, 5, 40)
_VERY_MANY = 2000
_BATCH_FIELDS = (
    (0, "q"),
    (8, "i"),
    (12, "i"),
    (16, "b"),
    (17, "I"),
    (21, "h"),
    (23, "i"),
    (27, "q"),
    (35, "q"),
    (43, "q"),
    (51, "h"),
    (53, "i"),
    (57, "i"),
)
_CODE_BOUNDS = {
    code: BOUNDS[kind] for kind, code in SCALAR_CODES.items() if kind in BOUNDS and kind != "bool"
}
Mutation = Callable[[random.Random, TokenFrame, list[bytes]], None]


@cache
def edges(kind: str) -> tuple[bytes, ...]:
    """All replacements of a token of this kind."""
    if kind in BOUNDS and kind != "bool":
        return tuple(struct.pack(f">{SCALAR_CODES[kind]}", value) for value in BOUNDS[kind])
    return {
        "bool": (b"\0", b"\x01", b"\x02", b"\xff"),
        "present": (b"\0", b"\x01", b"\x02", b"\xff"),
        "uuid": (bytes(16), b"\xff" * 16, bytes(15) + b"\x01"),
        "compact length": _COMPACT,
        "compact count": _COMPACT,
        "length": _LENGTHS,
        "count": _COUNTS,
        "text": _TEXTS,
        "tags": _TAGS,
        "tag": _COMPACT,
        "size": (
            b"\xff\xff\xff\xff",
            b"\x7f\xff\xff\xff",
            b"\x80\0\0\0",
            b"GET ",
            b"\0\0\0\0",
            b"\x16\x03\x01\x02",
        ),
        "records": _hostile_batches(),
    }[kind]


@cache
def bombs() -> tuple[bytes, ...]:
    """Small batches that expand to more than a broker may decompress, in each codec; and one that it may."""
    found = []
    for codec in Codec:
        if codec is not Codec.NONE:
            found.append(bytes(build_batch([NewRecord(None, bytes(110 << 20))], codec=codec)))
    found.append(bytes(build_batch([NewRecord(None, bytes(30 << 20))], codec=Codec.ZSTD)))
    return tuple(found)


@cache
def _hostile_batches() -> tuple[bytes, ...]:
    """Batches with each header field at each boundary, with and without a CRC that matches; and no batches."""
    found: list[bytes] = [b"", b"\0", bytes(60), bytes(61), b"\xff" * 100]
    plain = build_batch([NewRecord(b"k", b"v"), NewRecord(None, b"w" * 50)])
    for codec in Codec:
        whole = bytes(build_batch([NewRecord(b"k", b"v" * 40)] * 3, codec=codec))
        found += [whole, whole + whole, whole[:-1], whole[:HEADER_SIZE], whole + b"\0"]
    for position, code in _BATCH_FIELDS:
        for value in _CODE_BOUNDS[code]:
            changed = bytearray(plain)
            struct.pack_into(f">{code}", changed, position, value)
            found.append(bytes(changed))
            if position not in (8, 17):
                found.append(with_crc(changed))
    for attributes in range(128):
        changed = bytearray(plain)
        struct.pack_into(">h", changed, 21, attributes)
        found.append(with_crc(changed))
    return tuple(found)


def with_crc(batch: bytearray) -> bytes:
    """The batch with the CRC of its content."""
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    return bytes(batch)


def sweep(frame: TokenFrame) -> Iterator[bytes]:
    """The frame with each token replaced by each of its edges, then with structural changes of each kind."""
    for index, token in enumerate(frame.tokens):
        original = frame.parts[index]
        for edge in edges(token.kind):
            # The generator is suspended with the frame unchanged: others use it too.
            frame.parts[index] = edge
            found = b"".join(frame.parts) if token.kind == "size" else sized(frame.parts)
            frame.parts[index] = original
            yield found
            if token.kind in ("text", "records"):
                parts = frame.parts.copy()
                put_text(frame, parts, index, edge)
                yield sized(parts)
    whole = sized(frame.parts)
    yield whole
    for cut in range(4, len(whole), 1 + len(whole) // _CUTS):
        yield (cut - 4).to_bytes(4, "big") + whole[4:cut]
    for extra in (b"\0", b"\xff" * 9):
        yield sized([*frame.parts, extra])
    for elements in frame.arrays:
        for times in (2, 40):
            parts = list(frame.parts)
            repeat(elements, parts, times)
            yield sized(parts)


def put_text(frame: TokenFrame, parts: list[bytes], index: int, text: bytes) -> None:
    """Replace a text or records, and the length before it, so that the frame stays well-formed."""
    width = len(frame.parts[index - 1])
    compact = frame.tokens[index - 1].kind.startswith("compact")
    parts[index - 1] = uvarint(len(text) + 1) if compact else len(text).to_bytes(width, "big")
    parts[index] = text


def repeat(elements: tuple[int, tuple[tuple[int, int], ...], bool], parts: list[bytes], times: int) -> None:
    """Repeat the elements of an array, with a count that matches."""
    count, ranges, flexible = elements
    if not ranges:
        return
    total = len(ranges) * times
    parts[count] = uvarint(total + 1) if flexible else struct.pack(">i", total)
    start, end = ranges[0][0], ranges[-1][1]
    parts[end - 1] += b"".join(parts[start:end]) * (times - 1)


# Mutations of `parts`, chosen by random numbers


def _token(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    index = int(rng.random() * len(parts))
    choices = edges(frame.tokens[index].kind)
    parts[index] = choices[int(rng.random() * len(choices))]


def _body_token(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    """As `_token`, but not in the header: so that the request reaches its handler more often."""
    index = 6 + int(rng.random() * (len(parts) - 6)) if len(parts) > 6 else 0
    choices = edges(frame.tokens[index].kind)
    parts[index] = choices[int(rng.random() * len(choices))]


def _scalar(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    """Any value in place of a scalar: the frame stays well-formed."""
    index = 6 + int(rng.random() * (len(parts) - 6)) if len(parts) > 6 else 3
    if frame.tokens[index].kind in SCALAR_CODES:
        parts[index] = rng.randbytes(len(parts[index]))


def _text(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    """Another text with its length: the frame stays well-formed."""
    texts = [index for index, token in enumerate(frame.tokens) if token.kind == "text" and index > 5]
    if not texts:
        return
    index = texts[int(rng.random() * len(texts))]
    if rng.random() < _LONG_CHANCE:
        text = _TEXTS[-1 - int(rng.random() * _LONG_TEXTS)]
    else:
        text = _TEXTS[int(rng.random() * (len(_TEXTS) - _LONG_TEXTS))]
    put_text(frame, parts, index, text)


def _repeat(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    if frame.arrays:
        times = _MANY[int(rng.random() * len(_MANY))] if rng.random() < 0.995 else _VERY_MANY
        repeat(frame.arrays[int(rng.random() * len(frame.arrays))], parts, times)


def _tags(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    places = [index for index, token in enumerate(frame.tokens) if token.kind == "tags"]
    if places:
        parts[places[int(rng.random() * len(places))]] = _TAGS[int(rng.random() * len(_TAGS))]


def _records(rng: random.Random, frame: TokenFrame, parts: list[bytes]) -> None:
    """A changed batch, mostly with a CRC that matches, and with its length."""
    places = [index for index, token in enumerate(frame.tokens) if token.kind == "records"]
    if not places:
        return _body_token(rng, frame, parts)
    index = places[int(rng.random() * len(places))]
    batch = bytearray(parts[index])
    for _ in range(int(rng.random() * 3)):
        if len(batch) > HEADER_SIZE:
            batch[int(rng.random() * len(batch))] ^= 1 << int(rng.random() * 8)
    changed = bytes(batch)
    if len(batch) >= HEADER_SIZE and rng.random() < 0.9:
        changed = with_crc(batch)
    else:
        choices = edges("records") if rng.random() > _BOMB_CHANCE else bombs()
        changed = choices[int(rng.random() * len(choices))]
    put_text(frame, parts, index, changed)


_MUTATIONS: tuple[Mutation, ...] = (
    _token,
    _body_token,
    _body_token,
    _scalar,
    _scalar,
    _text,
    _text,
    _repeat,
    _repeat,
    _tags,
    _records,
)


def mutate(rng: random.Random, frame: TokenFrame) -> bytes:
    """The frame with up to three mutations, and sometimes with changed bytes or a wrong size."""
    parts = frame.parts.copy()
    for _ in range(int(rng.random() * 3.3)):
        _MUTATIONS[int(rng.random() * len(_MUTATIONS))](rng, frame, parts)
    chance = rng.random()
    if chance < 0.8:
        return sized(parts)
    data = bytearray(sized(parts))
    if chance < 0.9:
        for _ in range(1 + int(rng.random() * 4)):
            data[4 + int(rng.random() * (len(data) - 4))] ^= 1 << int(rng.random() * 8)
    elif chance < 0.97:
        del data[4 + int(rng.random() * (len(data) - 4)) :]
        data[:4] = (len(data) - 4).to_bytes(4, "big")
    elif chance < 0.99:
        data += rng.randbytes(1 + int(rng.random() * 20))
        data[:4] = (len(data) - 4).to_bytes(4, "big")
    else:
        choices = edges("size")
        data[:4] = choices[int(rng.random() * len(choices))]
    return bytes(data)

"""The compression codecs of record batches, with a limit on the decompressed size.

The forms are those that Kafka's clients write and read: gzip members; snappy in xerial's framing (written,
and read beside raw snappy); LZ4 frames of independent blocks; zstd frames. `decompress` never returns, and
never holds, more than about `limit` bytes: lengths that the data declare are checked before memory is taken,
and where nothing is declared the output is capped while it grows. Pure; no state is kept between calls.

The package of the codecs is imported with the first batch that needs it: it takes 1.5 MB of memory.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Final

from ottla.records.batch import Buffer


class Codec(IntEnum):
    """The codec's number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Values of `compression.type` that name a codec; `producer` names none."""

DEFAULT_LEVELS: Final = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}


class DecompressionFailed(Exception):
    """The bytes are not valid for their codec."""


class DecompressedTooLarge(Exception):
    """Unpacking would pass the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"unpacks to more than {limit} bytes")


_U32_LE = Struct("<I")
_I32_BE = Struct(">i")

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
"""zlib's value for a window of 32 KiB in a gzip container."""
_GZIP_BITE = 16 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
# A copy of 64 bytes takes at least 3.
_SNAPPY_RATIO_MAX = 22

# Version 1, independent blocks, no checksums; blocks of 64 KiB; checksum of these two bytes.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_MAGIC = _LZ4_HEADER[:4]
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_RATIO_MAX = 255
_LZ4_END = b"\x00\x00\x00\x00"

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50
_ZSTD_BLOCK_MAX = 128 * 1024
_ZSTD_FRAME = Struct("<II")
# Kinds of block: stored, one byte repeated, packed.
_ZSTD_REPEATED = 1
_ZSTD_PACKED = 2


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Pack the records of one batch; `level` is ignored by the codecs that have none."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            packer = zlib.compressobj(
                DEFAULT_LEVELS[Codec.GZIP] if level is None else level, zlib.DEFLATED, 31
            )
            return packer.compress(data) + packer.flush()
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            import cramjam

            return bytes(
                cramjam.zstd.compress(data, level=DEFAULT_LEVELS[Codec.ZSTD] if level is None else level)
            )
    raise ValueError(f"no codec has the number {codec}")


def decompress(codec: int, data: Buffer, limit: int) -> Buffer:
    """Unpack the records of one batch; raises DecompressionFailed or DecompressedTooLarge."""
    match codec:
        case Codec.NONE:
            if len(data) > limit:
                raise DecompressedTooLarge(limit)
            return data
        case Codec.GZIP:
            return _decompress_gzip(data, limit)
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        case Codec.LZ4:
            return _decompress_lz4(data, limit)
        case Codec.ZSTD:
            return _decompress_zstd(data, limit)
    raise DecompressionFailed(f"no codec has the number {codec}")


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    """Members one after another; what follows the last one and is no gzip header is left alone."""
    view = memoryview(data)
    parts: list[bytes] = []
    room = limit
    position = 0
    while not parts or view[position : position + 2] == _GZIP_MAGIC:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            # In small bites, because what is left of a bite after the end of a member is copied each time.
            bite = view[position : position + _GZIP_BITE]
            try:
                part = member.decompress(bite, room + 1)
            except zlib.error as error:
                raise DecompressionFailed(f"gzip: {error}") from None
            if not bite:
                raise DecompressionFailed("gzip: the data end early")
            if len(part) > room:
                raise DecompressedTooLarge(limit)
            parts.append(part)
            room -= len(part)
            position += len(bite)
        position -= len(member.unused_data)
    return b"".join(parts)


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += _I32_BE.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, limit: int) -> Buffer:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        if not view:
            raise DecompressionFailed("snappy: no data")
        return _decompress_snappy_block(view, limit, limit)
    if len(view) < len(_XERIAL_HEADER):
        raise DecompressionFailed("snappy: the data end early")
    parts: list[Buffer] = []
    room = limit
    position = len(_XERIAL_HEADER)
    while len(view) - position >= 4:
        if view[position : position + 8] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        (size,) = _I32_BE.unpack_from(view, position)
        position += 4
        if size < 0 or size > len(view) - position:
            raise DecompressionFailed("snappy: a block passes the end of the data")
        part = _decompress_snappy_block(view[position : position + size], room, limit)
        parts.append(part)
        room -= len(part)
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, limit: int) -> Buffer:
    import cramjam

    try:
        declared = cramjam.snappy.decompress_raw_len(block)
        if declared > room:
            raise DecompressedTooLarge(limit)
        if declared > len(block) * _SNAPPY_RATIO_MAX:
            raise DecompressionFailed("snappy: a block declares more bytes than it can contain")
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"snappy: {error}") from None


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """As in Kafka's encoder the default level is LZ4's fast mode, every other one its high compression."""
    fast = level is None or level == DEFAULT_LEVELS[Codec.LZ4]
    view = memoryview(data)
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        packed = _lz4_block(plain) if fast else _lz4_block_at_level(plain, level)
        if len(packed) < len(plain):
            out += _U32_LE.pack(len(packed))
            out += packed
        else:
            out += _U32_LE.pack(len(plain) | _LZ4_STORED)
            out += plain
    out += _LZ4_END
    return bytes(out)


def _lz4_block(plain: memoryview) -> memoryview:
    import cramjam

    return memoryview(cramjam.lz4.compress_block(plain, store_size=False))


def _lz4_block_at_level(plain: memoryview, level: int | None) -> memoryview:
    """The library heeds a level only for whole frames of linked blocks; the first block links to nothing."""
    import cramjam

    frame = memoryview(cramjam.lz4.compress(plain, level=level))
    (size,) = _U32_LE.unpack_from(frame, len(_LZ4_HEADER))
    start = len(_LZ4_HEADER) + _U32_LE.size
    return plain if size & _LZ4_STORED else frame[start : start + size]


def _decompress_lz4(data: Buffer, limit: int) -> bytearray:
    """One frame; what follows it is left alone, as Kafka's reader does.

    A wrong checksum of the content, which that reader passes over, is refused: other clients would fail.
    """
    import cramjam

    view = memoryview(data)
    frame_end, bound = _measure_lz4(view)
    out = bytearray(min(bound, limit))
    try:
        size = cramjam.lz4.decompress_into(view[:frame_end], out)
    except cramjam.DecompressionError as error:
        if bound > limit and "whole buffer" in str(error):
            raise DecompressedTooLarge(limit) from None
        raise DecompressionFailed(f"lz4: {error}") from None
    del out[size:]
    return out


def _measure_lz4(view: memoryview) -> tuple[int, int]:
    """Where the frame ends, and the most it can unpack to."""
    if len(view) < 11 or view[:4] != _LZ4_MAGIC:
        raise DecompressionFailed("lz4: no frame")
    flags, descriptor = view[4], view[5]
    if flags >> 6 != 1 or not flags & 0x20 or flags & 0x03:
        raise DecompressionFailed("lz4: only frames of version 1 with independent blocks are read")
    if descriptor & 0x8F or descriptor >> 4 < 4:
        raise DecompressionFailed("lz4: impossible block size")
    block_max = 1 << (2 * (descriptor >> 4) + 8)
    position = 15 if flags & 0x08 else 7
    bound = 0
    while True:
        if len(view) - position < 4:
            raise DecompressionFailed("lz4: the data end early")
        (size,) = _U32_LE.unpack_from(view, position)
        position += 4
        if size & ~_LZ4_STORED == 0:
            break
        stored = size & _LZ4_STORED != 0
        size &= ~_LZ4_STORED
        if size > block_max:
            raise DecompressionFailed("lz4: a block passes the declared block size")
        bound += size if stored else min(block_max, size * _LZ4_RATIO_MAX)
        position += size + (4 if flags & 0x10 else 0)
    position += 4 if flags & 0x04 else 0
    if position > len(view):
        raise DecompressionFailed("lz4: the data end early")
    return position, bound


def _decompress_zstd(data: Buffer, limit: int) -> bytearray:
    import cramjam

    view = memoryview(data)
    if not view:
        return bytearray()
    bound = _measure_zstd(view, limit)
    out = bytearray(min(bound, limit))
    try:
        size = cramjam.zstd.decompress_into(view, out)
    except cramjam.DecompressionError as error:
        if bound > limit and "whole buffer" in str(error):
            raise DecompressedTooLarge(limit) from None
        raise DecompressionFailed(f"zstd: {error}") from None
    del out[size:]
    return out


def _measure_zstd(view: memoryview, limit: int) -> int:
    """The most that the frames can unpack to; stops counting once that is over the limit."""
    position = 0
    bound = 0
    while position < len(view) and bound <= limit:
        if len(view) - position < 8:
            raise DecompressionFailed("zstd: the data end early")
        magic, size = _ZSTD_FRAME.unpack_from(view, position)
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
            position += 8 + size
        elif magic == _ZSTD_MAGIC:
            position, frame_bound = _measure_zstd_frame(view, position + 4, limit)
            bound += frame_bound
        else:
            raise DecompressionFailed("zstd: no frame")
    return bound


def _measure_zstd_frame(view: memoryview, position: int, limit: int) -> tuple[int, int]:
    """Where the frame ends, and the most it can unpack to: by what it declares, and by its blocks."""
    descriptor = view[position]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    position += 2 - single_segment + (0, 1, 2, 4)[descriptor & 3]
    declared = int.from_bytes(view[position : position + width], "little") + (256 if width == 2 else 0)
    if width and declared > limit:
        raise DecompressedTooLarge(limit)
    position += width
    bound = 0
    last = False
    while not last:
        if len(view) - position < 3:
            raise DecompressionFailed("zstd: the data end early")
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last = header & 1 == 1
        kind = header >> 1 & 3
        size = header >> 3
        bound += _ZSTD_BLOCK_MAX if kind == _ZSTD_PACKED else size
        position += 3 + (1 if kind == _ZSTD_REPEATED else size)
    return position + (4 if descriptor & 0x04 else 0), min(bound, declared) if width else bound

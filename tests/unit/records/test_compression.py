"""Codecs: what others write is read, what is written others read, and nothing grows without bound."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import pytest

from ottla.records.compression import (
    CODEC_NAMES,
    Codec,
    DecompressedTooLarge,
    DecompressionFailed,
    compress,
    decompress,
)

PACKERS = [codec for codec in Codec if codec is not Codec.NONE]
SAMPLES = [b"", b"x", b"hello " * 20_000, bytes(range(256)) * 1_000]
MEBIBYTE = 1 << 20


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip(codec: Codec, data: bytes) -> None:
    for form in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, form)
        assert bytes(decompress(codec, packed, len(data))) == data


@pytest.mark.parametrize("codec", PACKERS)
def test_one_byte_over_the_limit(codec: Codec) -> None:
    data = b"hello " * 20_000
    packed = compress(codec, data)
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, len(data) - 1)


def test_nothing_packed_is_bounded_too() -> None:
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.NONE, b"four", 3)


def _bombs() -> list[tuple[str, Codec, bytes]]:
    size = 16 * MEBIBYTE
    zeros = bytes(size)
    stream = cramjam.zstd.Compressor()
    stream.compress(zeros)
    return [
        ("gzip", Codec.GZIP, gzip.compress(zeros)),
        ("gzip of many members", Codec.GZIP, gzip.compress(bytes(MEBIBYTE)) * 16),
        ("snappy", Codec.SNAPPY, compress(Codec.SNAPPY, zeros)),
        ("snappy raw", Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(zeros))),
        ("lz4", Codec.LZ4, compress(Codec.LZ4, zeros)),
        ("zstd", Codec.ZSTD, compress(Codec.ZSTD, zeros)),
        ("zstd without a declared size", Codec.ZSTD, bytes(stream.finish())),
        ("zstd of many frames", Codec.ZSTD, compress(Codec.ZSTD, bytes(MEBIBYTE)) * 16),
    ]


def test_bombs_take_no_more_memory_than_the_limit() -> None:
    for name, codec, bomb in _bombs():
        tracemalloc.start()
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, bomb, MEBIBYTE)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3 * MEBIBYTE, name


def test_a_declared_size_alone_takes_no_memory() -> None:
    raw_snappy = b"\x80\x80\x80\x10" + b"\x00x"
    # single segment, eight bytes of content size: 32 MiB; one raw block of one byte
    zstd = b"\x28\xb5\x2f\xfd\xe0" + (32 * MEBIBYTE).to_bytes(8, "little") + b"\x09\x00\x00x"
    for codec, data in ((Codec.SNAPPY, raw_snappy), (Codec.ZSTD, zstd)):
        tracemalloc.start()
        with pytest.raises(DecompressionFailed):
            decompress(codec, data, 64 * MEBIBYTE)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MEBIBYTE


@pytest.mark.parametrize("codec", PACKERS)
def test_cut_data_fail(codec: Codec) -> None:
    packed = compress(codec, b"hello " * 20_000)
    for size in range(1, len(packed), max(1, len(packed) // 50)):
        try:
            short = bytes(decompress(codec, packed[:size], MEBIBYTE))
        except DecompressionFailed:
            continue
        # xerial's framing has no end mark: what is cut between blocks is shorter, not broken
        assert codec is Codec.SNAPPY
        assert len(short) < 120_000


@pytest.mark.parametrize("codec", PACKERS)
def test_noise_fails(codec: Codec) -> None:
    with pytest.raises(DecompressionFailed):
        decompress(codec, b"\x99" * 40, MEBIBYTE)


def test_unassigned_codecs() -> None:
    with pytest.raises(DecompressionFailed):
        decompress(5, b"", 1)
    with pytest.raises(ValueError, match="5"):
        compress(5, b"")


def test_lz4_frames_have_independent_blocks_and_no_checksums() -> None:
    for level in (None, 3):
        frame = compress(Codec.LZ4, b"hello " * 20_000, level)
        assert frame[:7].hex() == "04224d18604082"
        assert frame.endswith(b"\x00\x00\x00\x00")
        assert bytes(cramjam.lz4.decompress(frame)) == b"hello " * 20_000


def test_noise_is_stored_in_lz4_blocks() -> None:
    noise = gzip.compress(b"".join(b"%d" % (i * i) for i in range(50_000)))
    for level in (None, 12):
        assert len(compress(Codec.LZ4, noise, level)) <= len(noise) + 64


def test_names_are_those_of_the_topic_setting() -> None:
    assert CODEC_NAMES == {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

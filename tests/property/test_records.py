"""Batches: what is built is read back; the compiled kernel and its reference never disagree."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from ottla.records import _reference
from ottla.records.batch import HEADER_SIZE, compute_crc, crc_ok, read_header
from ottla.records.builder import NewRecord, build_batch, encode_records
from ottla.records.compression import (
    Codec,
    DecompressedTooLarge,
    DecompressionFailed,
    compress,
    decompress,
)
from ottla.records.record import Header, Record, iter_records, record_timestamp
from ottla.records.validation import BatchRefused, BatchRules, validate
from ottla.records.verdict import Verdict

_kernel = pytest.importorskip("ottla.records._kernel")

NOW_MS = 1_790_000_000_000
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
CODECS = st.sampled_from(list(Codec))
HEADERS = st.lists(
    st.builds(Header, st.text(st.characters(codec="utf-8"), max_size=8), st.none() | st.binary(max_size=8)),
    max_size=3,
)
NEW_RECORDS = st.builds(
    NewRecord,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=200),
    HEADERS.map(tuple),
    st.integers(NOW_MS - 10_000, NOW_MS + 10_000),
)
RECORDS = st.builds(
    Record,
    INTS,
    LONGS,
    st.none() | st.binary(max_size=8),
    st.none() | st.binary(max_size=8),
    HEADERS.map(tuple),
    attributes=st.integers(0, 255),
)
MUTATIONS = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4)


def mutate(data: bytes, changes: list[tuple[int, int]]) -> bytearray:
    out = bytearray(data)
    for position, value in changes:
        if out:
            out[position % len(out)] = value
    return out


def same_walk(data: bytes | bytearray, count: int, base_timestamp: int) -> _reference.Walk:
    """Both kernels over all of `data`, in both modes."""
    for strict in (True, False):
        expected = _reference.walk(data, 0, len(data), count, base_timestamp, strict=strict)
        assert _kernel.walk(data, 0, len(data), count, base_timestamp, strict=strict) == expected
    return _reference.walk(data, 0, len(data), count, base_timestamp, strict=True)


@given(st.lists(RECORDS, max_size=8), LONGS)
def test_walk_of_sound_records(records: list[Record], base_timestamp: int) -> None:
    verdict, max_timestamp, min_timestamp, keyless, sequential = same_walk(
        bytes(encode_records(records)), len(records), base_timestamp
    )
    times = [_reference.wrap_long(base_timestamp + record.timestamp_delta) for record in records]
    assert verdict == Verdict.OK
    assert max_timestamp == max([-1, *times])
    assert min_timestamp == min([_reference.TIMESTAMP_MAX, *(time for time in times if time != -1)])
    assert keyless == sum(record.key is None for record in records)
    assert sequential == all(record.offset_delta == index for index, record in enumerate(records))


@given(st.lists(RECORDS, min_size=1, max_size=4), MUTATIONS, st.integers(-1, 6), LONGS)
def test_walk_of_broken_records(records: list[Record], changes: Any, count: int, base_timestamp: int) -> None:
    same_walk(mutate(bytes(encode_records(records)), changes), count, base_timestamp)


@given(st.binary(max_size=200), st.integers(0, 5), LONGS)
def test_walk_of_noise(data: bytes, count: int, base_timestamp: int) -> None:
    same_walk(data, count, base_timestamp)


@st.composite
def broken_batches(draw: st.DrawFn) -> bytearray:
    """A batch with a few bytes changed, its CRC mostly right, perhaps cut or with something behind it."""
    records = draw(st.lists(NEW_RECORDS, max_size=4))
    data = mutate(build_batch(records, codec=draw(CODECS), producer_id=1, base_sequence=0), draw(MUTATIONS))
    if draw(st.integers(0, 4)):
        data[17:21] = compute_crc(data).to_bytes(4, "big")
    return draw(
        st.sampled_from([data, data + draw(st.binary(max_size=70)), data[: draw(st.integers(0, 200))]])
    )


@given(broken_batches(), st.sampled_from([10_000, 300, 100]), st.booleans())
def test_check_of_broken_batches(data: bytearray, limit: int, zstd_allowed: bool) -> None:
    assert _kernel.check_batch(data, limit, zstd_allowed) == _reference.check_batch(data, limit, zstd_allowed)


@given(
    st.lists(NEW_RECORDS, min_size=1, max_size=8),
    CODECS,
    st.sampled_from(["producer", "gzip", "zstd", "uncompressed"]),
)
def test_sound_batches_pass_whole(records: list[NewRecord], codec: Codec, compression_type: str) -> None:
    sent = build_batch(records, codec=codec)
    valid = validate(memoryview(sent), BatchRules(compression_type=compression_type), NOW_MS, api_version=13)
    header = read_header(valid.data)
    assert crc_ok(valid.data)
    assert header == valid.header
    stored = [
        NewRecord(r.key, r.value, r.headers, record_timestamp(header, r)) for r in iter_records(valid.data)
    ]
    assert stored == records
    if compression_type == "producer":
        assert valid.data == sent


@given(st.lists(NEW_RECORDS, min_size=1, max_size=4), CODECS, MUTATIONS, st.sampled_from(["producer", "lz4"]))
def test_broken_batches_are_refused_or_readable(
    records: list[NewRecord], codec: Codec, changes: Any, compression_type: str
) -> None:
    """Whatever arrives with a right CRC: refused as a client can understand it, or consistent."""
    data = mutate(build_batch(records, codec=codec), changes)
    data[17:21] = compute_crc(data).to_bytes(4, "big")
    rules = BatchRules(compression_type=compression_type, compacted=True, decompressed_bytes_max=100_000)
    with contextlib.suppress(BatchRefused):
        valid = validate(memoryview(data), rules, NOW_MS, api_version=13)
        assert crc_ok(valid.data)
        assert valid.header == read_header(valid.data)
        assert valid.header.last_offset_delta + 1 == valid.header.records_count


@given(CODECS, st.binary(max_size=2_000) | st.binary(max_size=50).map(lambda part: part * 3_000))
def test_codecs_round_trip(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed, len(data))) == data
    if data:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, packed, len(data) - 1)


@given(CODECS, st.binary(max_size=300), MUTATIONS, st.integers(0, 1_000))
def test_broken_packing_fails_within_the_limit(codec: Codec, data: bytes, changes: Any, limit: int) -> None:
    packed = mutate(compress(codec, data), changes)
    with contextlib.suppress(DecompressionFailed, DecompressedTooLarge):
        assert len(decompress(codec, packed, limit)) <= limit


@given(st.binary(max_size=100))
@example(b"")
def test_murmur2(key: bytes) -> None:
    expected = kafka_python_murmur2(key) % 2**32
    assert _kernel.murmur2(key) == expected
    assert _reference.murmur2(key) == expected
    assert aiokafka_murmur2(key) % 2**32 == expected


def test_header_size_is_what_the_kernel_thinks() -> None:
    whole = build_batch([NewRecord(b"k", b"v", (), NOW_MS)])
    assert _kernel.check_batch(whole[:HEADER_SIZE], 1_000, True)[0] == Verdict.NO_BATCH
    assert _kernel.check_batch(whole, 1_000, True)[1] == tuple(read_header(whole))

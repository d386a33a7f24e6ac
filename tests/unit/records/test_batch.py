"""The header view and the changes a leader makes."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    crc_ok,
    increment_sequence,
    iter_batches,
    read_header,
    set_max_timestamp,
    stamp,
)
from ottla.records.compression import Codec

from .batch_cases import NOW_MS, patch, plain


def test_every_field_is_where_kafka_puts_it() -> None:
    fields = {
        "base_offset": 0x0102030405060708,
        "partition_leader_epoch": 0x11121314,
        "attributes": 0x2122,
        "last_offset_delta": 0x31323334,
        "base_timestamp": 0x4142434445464748,
        "max_timestamp": 0x5152535455565758,
        "producer_id": 0x6162636465666768,
        "producer_epoch": 0x7172,
        "base_sequence": 0x01020304,
        "records_count": 0x05060708,
    }
    batch = patch(plain(NOW_MS), **fields)
    assert batch[:8].hex() == "0102030405060708"
    assert batch[12:17].hex() == "1112131402"
    assert batch[21:61].hex() == (
        "2122"
        + "31323334"
        + "4142434445464748"
        + "5152535455565758"
        + "6162636465666768"
        + "7172"
        + "01020304"
        + "05060708"
    )
    header = read_header(batch)
    assert {name: getattr(header, name) for name in fields} == fields
    assert header.size_in_bytes == len(batch)


def test_derived_values() -> None:
    header = read_header(
        plain(
            NOW_MS,
            3,
            base_offset=100,
            codec=Codec.ZSTD,
            producer_id=0,
            base_sequence=2**31 - 2,
            transactional=True,
        )
    )
    assert header.last_offset == 102
    assert header.compression == Codec.ZSTD
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert not header.is_control
    assert header.has_producer_id
    assert header.last_sequence == 0
    assert header.delete_horizon_ms is None
    other = read_header(patch(plain(NOW_MS), attributes=0x68, producer_id=-2))
    assert other.is_control
    assert other.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert other.delete_horizon_ms == NOW_MS
    assert not other.has_producer_id
    assert other.last_sequence == -1


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [(0, 0, 0), (5, 3, 8), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 7, 4)],
)
def test_sequences_wrap_to_zero(sequence: int, increment: int, expected: int) -> None:
    assert increment_sequence(sequence, increment) == expected


def test_read_header_needs_all_of_it() -> None:
    batch = b"front" + plain(NOW_MS)
    assert read_header(batch, 5).records_count == 3
    with pytest.raises(CorruptBatch) as corrupt:
        read_header(batch[: 5 + HEADER_SIZE - 1], 5)
    assert corrupt.value.code == ErrorCode.CORRUPT_MESSAGE


def test_stamp_leaves_the_crc_right() -> None:
    batch = bytearray(plain(NOW_MS))
    before = read_header(batch)
    stamp(memoryview(batch), 2**40, 9)
    assert read_header(batch) == before._replace(base_offset=2**40, partition_leader_epoch=9)
    assert crc_ok(batch)


def test_the_crc_detects_a_change_of_every_covered_byte() -> None:
    batch = bytearray(plain(NOW_MS, 1))
    for position in range(17, len(batch)):
        batch[position] ^= 1
        assert not crc_ok(batch)
        batch[position] ^= 1
    assert crc_ok(batch)
    assert not crc_ok(batch[: HEADER_SIZE - 1])


def test_set_max_timestamp_keeps_the_rest() -> None:
    batch = bytearray(plain(NOW_MS, transactional=True, codec=Codec.LZ4))
    before = bytes(batch)
    header = set_max_timestamp(batch, read_header(batch), TimestampType.LOG_APPEND_TIME, 77)
    assert header == read_header(batch)
    assert (header.attributes, header.max_timestamp) == (0x10 | 0x08 | 3, 77)
    assert crc_ok(batch)
    assert batch[43:] == before[43:]


def test_iter_batches_stops_at_a_partial_tail() -> None:
    first, second = plain(NOW_MS, 1), plain(NOW_MS, 5, base_offset=1)
    found: list[tuple[int, BatchHeader]] = list(iter_batches(first + second + second[:-1]))
    assert [(position, header.base_offset) for position, header in found] == [(0, 0), (len(first), 1)]
    assert [position for position, _ in iter_batches(first + second, len(first))] == [len(first)]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("fields", [{"batch_length": 48}, {"batch_length": -1}, {"magic": 1}])
def test_iter_batches_refuses_the_impossible(fields: dict[str, int]) -> None:
    batches = iter_batches(plain(NOW_MS) + patch(plain(NOW_MS), **fields))
    next(batches)
    with pytest.raises(CorruptBatch):
        next(batches)

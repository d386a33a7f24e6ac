"""Batches we build are read alike by other implementations."""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from ottla.records.batch import TimestampType, crc_ok, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Header, iter_records, record_timestamp

RECORDS = [
    NewRecord(b"a", b"one", (Header("h", b"x"), Header("ü", None)), 1_000),
    NewRecord(None, b"two" * 50_000, (), 990),
    NewRecord(b"", None, (), 1_700_000_000_000),
]


# kafka-python needs a library of its own for each other codec.
READERS = [*((AiokafkaRecords, codec) for codec in Codec), *((KafkaPythonRecords, codec) for codec in (0, 1))]


@pytest.mark.parametrize(("reader", "codec"), READERS)
def test_other_clients_read_the_same(reader: type, codec: int) -> None:
    data = build_batch(RECORDS, base_offset=40, codec=Codec(codec))
    batch = reader(data).next_batch()
    assert batch.validate_crc()
    seen = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert seen == [
        (40 + i, r.timestamp, r.key, r.value, [(h.key, h.value) for h in r.headers])
        for i, r in enumerate(RECORDS)
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_round_trip(codec: Codec) -> None:
    data = build_batch(RECORDS, codec=codec, producer_id=5, producer_epoch=6, base_sequence=7)
    header = read_header(data)
    assert crc_ok(data)
    assert header.max_timestamp == 1_700_000_000_000
    assert header.base_timestamp == 1_000
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert header.records_count == 3
    assert header.last_offset_delta == 2
    assert [
        NewRecord(r.key, r.value, r.headers, record_timestamp(header, r)) for r in iter_records(data)
    ] == RECORDS


def test_log_append_time_is_every_records_time() -> None:
    data = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5_000)
    header = read_header(data)
    assert header.max_timestamp == 5_000
    assert {record_timestamp(header, record) for record in iter_records(data)} == {5_000}


def test_empty_batch() -> None:
    header = read_header(build_batch([], base_offset=9))
    assert (header.records_count, header.last_offset_delta, header.max_timestamp) == (0, -1, -1)


def test_flags() -> None:
    assert read_header(build_batch(RECORDS, transactional=True, control=True)).attributes == 0x30
    assert read_header(build_batch(RECORDS, leader_epoch=12)).partition_leader_epoch == 12

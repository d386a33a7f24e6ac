"""Control records."""

from __future__ import annotations

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from ottla.records.batch import CorruptBatch, crc_ok, read_header
from ottla.records.control import (
    ControlType,
    EndTxnMarker,
    build_control_batch,
    build_end_txn_batch,
    control_key,
    control_type,
    read_end_txn,
)
from ottla.records.record import iter_records


@pytest.mark.parametrize("committed", [True, False])
def test_end_of_transaction(committed: bool) -> None:
    marker = EndTxnMarker(committed, 17)
    batch = build_end_txn_batch(
        marker, timestamp=123, producer_id=9, producer_epoch=2, base_offset=4, leader_epoch=5
    )
    header = read_header(batch)
    assert crc_ok(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.max_timestamp) == (4, 5, 123)
    (record,) = iter_records(batch)
    assert read_end_txn(record.key, record.value) == marker
    assert ControlRecord.parse(record.key) == (COMMIT_MARKER if committed else ABORT_MARKER)


def test_marker_bytes() -> None:
    (record,) = iter_records(
        build_end_txn_batch(EndTxnMarker(True, 0x01020304), timestamp=0, producer_id=1, producer_epoch=0)
    )
    assert (record.key, record.value) == (bytes.fromhex("00000001"), bytes.fromhex("000001020304"))


def test_other_types() -> None:
    batch = build_control_batch(ControlType.LEADER_CHANGE, b"value", timestamp=1)
    header = read_header(batch)
    assert header.is_control
    assert not header.is_transactional
    (record,) = iter_records(batch)
    assert control_type(record.key) is ControlType.LEADER_CHANGE
    assert record.value == b"value"
    assert read_end_txn(record.key, record.value) is None


def test_types_of_the_future_are_none() -> None:
    assert control_type(b"\x00\x00\x00\x63") is None
    assert control_type(control_key(ControlType.KRAFT_VOTERS) + b"more") is ControlType.KRAFT_VOTERS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00\x00\x00", b""),
        (b"\x00\x00\x00\x01", b"\x00"),
        (b"\xff\xff\x00\x01", b"\x00" * 6),
        (b"\x00\x00\x00\x01", b"\xff" * 6),
    ],
)
def test_broken_markers(key: bytes | None, value: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_end_txn(key, value)

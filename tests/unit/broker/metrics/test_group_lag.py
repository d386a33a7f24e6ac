"""The timestamp at an offset, which the lag in seconds is computed from."""

from __future__ import annotations

from ottla.broker.metrics.group_lag import GroupPartition, timestamp_at
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import EndTxnMarker, build_end_txn_batch


def batch(base_offset: int, *timestamps: int, codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(None, b"x", (), timestamp) for timestamp in timestamps]
    return build_batch(records, base_offset=base_offset, codec=codec)


def test_the_record_at_the_offset_counts() -> None:
    data = batch(10, 100, 300, 200) + batch(13, 400, codec=Codec.GZIP)
    assert [timestamp_at(data, offset) for offset in (10, 11, 12, 13, 14)] == [100, 300, 200, 400, -1]


def test_compacted_offsets_and_markers_are_skipped() -> None:
    marker = bytearray(
        build_end_txn_batch(EndTxnMarker(True, 0), timestamp=5, producer_id=1, producer_epoch=0)
    )
    marker[:8] = (11).to_bytes(8, "big")
    data = batch(10, 100) + bytes(marker) + batch(20, 900)
    assert timestamp_at(data, 11) == 900
    assert timestamp_at(b"", 0) == -1


def test_the_lag_is_not_negative() -> None:
    assert GroupPartition("g", "t", 0, 5, 3, None).lag == 0
    assert GroupPartition("g", "t", 0, 5, 9, None).lag == 4
    assert GroupPartition("g", "t", 0, 5, None, None).lag is None

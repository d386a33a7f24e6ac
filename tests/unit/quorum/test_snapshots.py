from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.base.files import OsDisk
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, decode_snapshot, encode_snapshot
from ottla.records.batch import iter_batches
from ottla.wire.messages.control import KRaftVersionRecord

CONTROLS = [KRaftVersionRecord(kraft_version=1)]


def snapshot(values: list[bytes]) -> bytes:
    return encode_snapshot(values, epoch=3, last_timestamp_ms=50, controls=CONTROLS, now_ms=60)


def test_there_and_back() -> None:
    read = decode_snapshot(snapshot([b"a", b"b"]), "x")
    assert read.last_timestamp_ms == 50
    assert read.controls == CONTROLS
    assert read.batches == [[b"a", b"b"]]


def test_large_snapshot_is_cut_into_batches_with_consecutive_offsets() -> None:
    values = [bytes([n]) * 300_000 for n in range(10)]
    data = snapshot(values)
    assert [v for batch in decode_snapshot(data, "x").batches for v in batch] == values
    expected = 0
    for _, header in iter_batches(data):
        assert header.base_offset == expected
        assert header.partition_leader_epoch == 3
        expected = header.last_offset + 1
    assert expected == 2 + 10 + 1
    assert len(decode_snapshot(data, "x").batches) == 3


def test_every_cut_is_noticed() -> None:
    data = snapshot([b"a", b"b"])
    for size in range(len(data)):
        with pytest.raises(LocalError, match="some/path"):
            decode_snapshot(data[:size], "some/path")


def test_flipped_bits_are_noticed() -> None:
    data = snapshot([b"a", b"b"])
    for position in range(21, len(data), 7):
        bad = bytearray(data)
        bad[position] ^= 0x10
        if bytes(bad[:21]) == data[:21] and decode_or_none(bytes(bad)) is not None:
            # Base offset and leader epoch lie outside the CRC; nothing else may pass.
            assert decode_or_none(bytes(bad)) == decode_or_none(data)


def decode_or_none(data: bytes) -> object:
    try:
        return decode_snapshot(data, "x")
    except LocalError:
        return None


def test_store(tmp_path: Path) -> None:
    store = SnapshotStore(OsDisk(), str(tmp_path))
    newer, older = SnapshotId(30, 2), SnapshotId(4, 1)
    for snapshot_id in (newer, older):
        store.write(snapshot_id, snapshot([b"v%d" % snapshot_id.end_offset]))
    (tmp_path / "00000000000000000000.log").touch()
    (tmp_path / "00000000000000000031-0000000002.checkpoint.part").touch()
    (tmp_path / "00000000000000000031-0000000002.checkpoint.deleted").touch()
    assert store.ids() == [older, newer]
    assert not list(tmp_path.glob("*.part"))
    assert (tmp_path / "00000000000000000030-0000000002.checkpoint").exists()
    assert store.read(newer).batches == [[b"v30"]]
    store.delete(older)
    assert store.ids() == [newer]

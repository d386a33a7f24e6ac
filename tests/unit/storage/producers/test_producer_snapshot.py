from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.files import OsDisk
from ottla.storage.producers.producer_snapshot import CorruptSnapshot, ProducerSnapshots, decode, encode
from ottla.storage.producers.producer_state import ProducerSnapshotEntry, ProducerState

KAFKA_BYTES = bytes.fromhex(
    "0001 d9766f1e 00000001 0000000000000000 0000 00000bb7 0000000000000bb7 00000012"
    "0000018bcfe5dd26 ffffffff ffffffffffffffff"
)
"""As Apache Kafka wrote it after 3,000 records of producer 0."""
ENTRY = ProducerSnapshotEntry(0, 0, 2999, 2999, 18, 1_700_000_029_990, -1, -1)
NEVER_MS = 2**60


def snapshots_in(path: Path) -> ProducerSnapshots:
    return ProducerSnapshots(OsDisk(), str(path), [each.name for each in path.iterdir()])


def taken(path: Path, *ends: int) -> ProducerSnapshots:
    snapshots = snapshots_in(path)
    state = ProducerState(NEVER_MS)
    for end_offset in ends:
        state.append_batch(
            5,
            0,
            end_offset,
            base_offset=end_offset - 1,
            last_offset=end_offset - 1,
            timestamp=0,
            transactional=False,
        )
        assert snapshots.take(state)
    return snapshots


def loaded(snapshots: ProducerSnapshots, start: int, end: int) -> ProducerState:
    state = ProducerState(NEVER_MS)
    snapshots.load_newest(state, start, end, now_ms=0)
    return state


def test_bytes_are_those_of_kafka() -> None:
    assert decode(KAFKA_BYTES) == [ENTRY]
    assert encode([ENTRY]) == KAFKA_BYTES
    assert decode(encode([])) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        KAFKA_BYTES[:9],
        KAFKA_BYTES[:-1],
        KAFKA_BYTES + b"\0",
        b"\0\2" + KAFKA_BYTES[2:],
        KAFKA_BYTES[:-1] + b"\0",
    ],
)
def test_damage_is_found(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode(data)


def test_taking_and_loading(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10, 20)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "00000000000000000010.snapshot",
        "00000000000000000020.snapshot",
    ]
    again = snapshots_in(tmp_path)
    assert again.offsets == snapshots.offsets == (10, 20)
    state = loaded(again, 0, 25)
    assert state.end_offset == 20
    entry = state.get(5)
    assert entry is not None
    assert entry.last_sequence == 20


def test_nothing_is_taken_twice(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10)
    assert not snapshots.take(loaded(snapshots, 0, 10))


def test_a_damaged_snapshot_gives_way_to_an_older_one(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10, 20)
    (tmp_path / "00000000000000000020.snapshot").write_bytes(b"torn")
    assert loaded(snapshots, 0, 25).end_offset == 10
    assert snapshots.offsets == (10,)
    assert not (tmp_path / "00000000000000000020.snapshot").exists()


def test_snapshots_outside_of_the_log_are_deleted(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10, 20, 30)
    assert loaded(snapshots, 10, 29).end_offset == 20
    assert snapshots.offsets == (20,)
    state = loaded(snapshots, 20, 29)
    assert (state.end_offset, len(state), snapshots.latest) == (20, 0, None)


def test_strays_go_but_the_one_of_a_clean_stop_stays(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10, 15, 20, 25)
    snapshots.keep_for([0, 10, 20])
    assert snapshots.offsets == (10, 20, 25)
    snapshots.keep_for([0, 10, 30])
    assert snapshots.offsets == (10,)


def test_deleting(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10, 20, 30)
    assert snapshots.forget_before(20) == [snapshots.path(10)]
    assert snapshots.offsets == (20, 30)
    snapshots.forget(20)
    assert snapshots.offsets == (30,)
    assert len(list(tmp_path.iterdir())) == 3
    snapshots.delete_all()
    assert snapshots.offsets == ()


def test_other_files_are_no_snapshots(tmp_path: Path) -> None:
    for name in ("00000000000000000010.snapshot.deleted", "1.snapshot", "0000000000000000001x.snapshot", "x"):
        (tmp_path / name).write_bytes(b"")
    assert snapshots_in(tmp_path).offsets == ()


def test_the_newest_two_inside_of_segments_are_kept(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 10, 20, 30, 40, 50)
    assert snapshots.thin_out([0, 10, 50]) == [snapshots.path(20)]
    assert snapshots.offsets == (10, 30, 40, 50)
    assert snapshots.thin_out([0, 10, 50]) == []


class SyncedDisk(OsDisk):
    def __init__(self) -> None:
        super().__init__()
        self.synced: list[list[str]] = []

    def sync_dir(self, path: str) -> None:
        super().sync_dir(path)
        self.synced.append(sorted(file.name for file in Path(path).iterdir()))


def test_snapshots_outside_of_the_log_are_deleted_durably(tmp_path: Path) -> None:
    taken(tmp_path, 10, 20, 30)
    disk = SyncedDisk()
    snapshots = ProducerSnapshots(disk, str(tmp_path), [each.name for each in tmp_path.iterdir()])
    loaded(snapshots, 0, 25)
    assert disk.synced == [["00000000000000000010.snapshot", "00000000000000000020.snapshot"]]

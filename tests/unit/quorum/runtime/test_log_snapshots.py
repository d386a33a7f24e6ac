"""Snapshots of the quorum's log: installed, read in parts, and those that a start can use."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.runtime.storage_log import READ_BYTES_MAX
from ottla.quorum.snapshots import SnapshotId, SnapshotStore
from tests.support.raft_log import (
    DIRECTORY,
    Bench,
    crashed,
    download,
    fetched,
    file_name,
    snapshot_data,
    store,
)


def test_an_installed_snapshot_replaces_the_log_durably() -> None:
    bench = Bench()
    bench.append(1, b"v")
    data = download(bench.log, OffsetAndEpoch(40, 7))
    for found in (bench, crashed(bench)):
        assert found.offsets == (40, 40, 40)
        assert found.log.latest_snapshot() == (40, 7)
        assert found.log.read_snapshot(OffsetAndEpoch(40, 7), 0) == (len(data), data)
    assert bench.log.append_fetched(fetched(40, 8, b"w")) == 41


def test_a_part_of_a_snapshot_replaces_what_follows_its_position() -> None:
    bench = Bench()
    snapshot = OffsetAndEpoch(40, 7)
    bench.log.write_snapshot_part(snapshot, 0, b"left by a download that was interrupted")
    data = download(bench.log, snapshot)
    assert bench.log.read_snapshot(snapshot, 0) == (len(data), data)
    assert download(bench.log, OffsetAndEpoch(50, 7)) == data, "each download starts empty"


def test_a_damaged_snapshot_is_not_installed() -> None:
    bench = Bench()
    bench.append(1, b"v")
    data = bytearray(snapshot_data(b"x"))
    data[-1] ^= 0xFF
    bench.log.write_snapshot_part(OffsetAndEpoch(40, 7), 0, bytes(data))
    with pytest.raises(LocalError, match=file_name(40, 7)):
        bench.log.install_snapshot(OffsetAndEpoch(40, 7))
    assert bench.offsets == (0, 1, 1)
    assert bench.log.latest_snapshot() is None
    assert bench.checkpoints == []


def test_an_installed_snapshot_follows_the_older_ones() -> None:
    bench = Bench()
    bench.append(1, b"v", b"w")
    bench.snapshot(1, 1)
    bench.snapshot(2, 1)
    download(bench.log, OffsetAndEpoch(40, 7))
    assert bench.log.oldest_snapshot() == (1, 1)
    assert bench.log.latest_snapshot() == (40, 7)
    assert bench.log.end_of_epoch(8) == (40, 7)


def test_a_snapshot_that_is_installed_twice_is_deleted_once() -> None:
    bench = Bench()
    download(bench.log, OffsetAndEpoch(40, 7))
    download(bench.log, OffsetAndEpoch(40, 7))
    for offset in (41, 42):
        bench.append(7, b"x")
        bench.snapshot(offset, 7)
    assert bench.faults == []
    assert bench.checkpoints == [file_name(41, 7), file_name(42, 7)]


def test_a_snapshot_is_read_in_parts() -> None:
    bench = Bench()
    assert bench.log.oldest_snapshot() is None
    data = download(bench.log, OffsetAndEpoch(40, 7))
    size = len(data)
    assert bench.log.read_snapshot(OffsetAndEpoch(40, 7), 30) == (size, data[30:])
    assert bench.log.read_snapshot(OffsetAndEpoch(40, 7), size) == (size, b"")
    assert bench.log.read_snapshot(OffsetAndEpoch(40, 7), -1) is None
    assert bench.log.read_snapshot(OffsetAndEpoch(40, 6), 0) is None


def test_a_part_of_a_snapshot_has_4_mebibytes_at_most() -> None:
    bench = Bench()
    bench.append(1, b"v")
    data = snapshot_data(*(bytes(1 << 20) for _ in range(6)))
    SnapshotStore(bench.disk, DIRECTORY).write(SnapshotId(1, 1), data)
    bench = Bench(bench.disk)
    size, part = bench.log.read_snapshot(OffsetAndEpoch(1, 1), 5) or (0, b"")
    assert (size, part) == (len(data), data[5 : 5 + READ_BYTES_MAX])


def test_the_log_below_the_previous_snapshot_is_deleted() -> None:
    """A follower that is a little behind does not need a snapshot."""
    bench = Bench()
    bench.append(1, b"a", b"b")
    bench.snapshot(2, 1)
    assert bench.log.start_offset == 0
    assert bench.checkpoints == [file_name(2, 1)]
    bench.append(1, b"c", b"d")
    bench.snapshot(4, 1)
    assert bench.log.start_offset == 2
    assert bench.checkpoints == [file_name(2, 1), file_name(4, 1)]
    bench.append(1, b"e")
    bench.snapshot(5, 1)
    assert bench.log.start_offset == 4
    assert bench.checkpoints == [file_name(4, 1), file_name(5, 1)]
    assert (bench.log.oldest_snapshot(), bench.log.latest_snapshot()) == ((4, 1), (5, 1))
    assert [name[:20] for name in bench.segments] == [f"{4:020d}", f"{5:020d}"]
    assert [name for name in bench.disk.listdir(DIRECTORY) if name.endswith(".deleted")] == []


def test_a_new_segment_begins_with_a_snapshot() -> None:
    bench = Bench()
    bench.append(1, b"a")
    bench.log.roll()
    bench.append(1, b"b")
    assert [name[:20] for name in bench.segments] == [f"{0:020d}", f"{1:020d}"]


def test_a_log_behind_its_installed_snapshot_is_replaced_at_the_start() -> None:
    """The process ended between both steps of `install_snapshot`."""
    bench = Bench()
    bench.append(1, b"v")
    store(bench.disk, 40, 7)
    bench = crashed(bench)
    assert bench.offsets == (40, 40, 40)
    assert bench.log.last_epoch == 7
    assert crashed(bench).offsets == (40, 40, 40)


def test_a_log_that_reaches_its_snapshot_is_kept_at_the_start() -> None:
    bench = Bench()
    bench.append(1, b"v", b"w")
    store(bench.disk, 2, 1)
    bench = Bench(bench.disk)
    assert bench.offsets == (0, 2, 2)
    assert bench.log.latest_snapshot() == (2, 1)


def test_an_older_snapshot_is_used_if_the_newest_is_damaged() -> None:
    bench = Bench()
    bench.append(1, b"v", b"w")
    bench.snapshot(1, 1)
    bench.snapshot(2, 1)
    bench.disk.corrupt(f"{DIRECTORY}/{file_name(2, 1)}", 80)
    bench = Bench(bench.disk)
    assert bench.log.latest_snapshot() == (1, 1)
    assert bench.log.end_offset == 2


def test_without_a_usable_snapshot_the_whole_log_is_used() -> None:
    bench = Bench()
    bench.append(1, b"v")
    store(bench.disk, 0, 0)
    bench.disk.corrupt(f"{DIRECTORY}/{file_name(0, 0)}", 80)
    bench = Bench(bench.disk)
    assert bench.log.latest_snapshot() is None
    assert bench.offsets == (0, 1, 1)


@pytest.mark.parametrize("offset", [1, 40])
def test_a_damaged_snapshot_that_the_log_depends_on_is_refused_at_the_start(offset: int) -> None:
    bench = Bench()
    download(bench.log, OffsetAndEpoch(offset, 7))
    bench.disk.corrupt(f"{DIRECTORY}/{file_name(offset, 7)}", 80)
    with pytest.raises(LocalError, match="CRC"):
        Bench(bench.disk)


@pytest.mark.parametrize("offset", [1, 40])
def test_a_log_without_the_snapshot_below_it_is_refused_at_the_start(offset: int) -> None:
    bench = Bench()
    download(bench.log, OffsetAndEpoch(offset, 7))
    bench.disk.remove(f"{DIRECTORY}/{file_name(offset, 7)}")
    with pytest.raises(LocalError, match="no snapshot covers"):
        Bench(bench.disk)

"""Snapshots of the state of a replica: delivered at the start, fetched from the leader, and written."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ottla.base.errors import ErrorCode
from ottla.quorum.quorum import CommittedBatch
from ottla.quorum.raft.messages import (
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
)
from ottla.quorum.raft.voters import ReplicaKey
from ottla.quorum.snapshots import SnapshotId, SnapshotStore
from tests.support.raft_log import DIRECTORY, Bench, fetched, file_name, snapshot_data, store
from tests.support.raft_replica import Replica


def test_the_latest_snapshot_is_delivered_at_the_start() -> None:
    bench = Bench()
    for value in (b"a", b"b", b"c"):
        bench.append(5, value)
    store(bench.disk, 2, 5)
    replica = Replica(bench.disk).start()
    assert replica.seen.events == [("snapshot", 1, 5)]
    assert replica.seen.snapshot == [b"state"]
    replica.follow()
    replica.respond(3)
    assert replica.seen.events == [("snapshot", 1, 5), ("committed", 2)]
    assert replica.seen.values() == [b"state", b"c"]


def test_the_snapshot_of_formatting_is_not_delivered() -> None:
    bench = Bench()
    store(bench.disk, 0, 0)
    assert Replica(bench.disk).start().seen.events == []


def test_a_fetched_snapshot_replaces_the_state() -> None:
    replica = Replica().start()
    replica.follow()
    replica.respond(1, fetched(0, 5, b"old"))
    replica.run()
    snapshot, data = OffsetAndEpoch(40, 4), snapshot_data(b"x", b"y")
    replica.answer(1, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=snapshot))
    assert replica.outstanding(1).request == FetchSnapshot(ReplicaKey(0), 5, snapshot, 0)
    replica.answer(1, FetchSnapshotResponse(ErrorCode.NONE, 5, 1, snapshot, len(data), 0, data))
    assert replica.seen.events == [("committed", 0), ("snapshot", 39, 4)]
    assert replica.seen.snapshot == [b"x", b"y"]
    replica.respond(41, fetched(40, 5, b"z"))
    replica.run()
    assert replica.seen.events[2:] == [("committed", 40)]


def test_a_snapshot_is_written_with_the_offset_after_its_last_record() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    replica.quorum.append(epoch, [b"a"])
    replica.run()
    replica.fetch(2)
    appended_ms = replica.seen.batches[-1].timestamp_ms
    replica.advance(0.5)
    replica.quorum.write_snapshot(1, epoch, [b"a"])
    assert replica.log.latest_snapshot() is None, "it is not written yet"
    replica.run()
    assert replica.log.latest_snapshot() == (2, epoch)
    written = SnapshotStore(replica.disk, DIRECTORY).read(SnapshotId(2, epoch))
    assert written.last_timestamp_ms == appended_ms
    assert written.batches == [[b"a"]]
    assert f"{2:020d}.log" in replica.disk.listdir(DIRECTORY), "a new segment begins"


def test_a_snapshot_keeps_the_timestamp_of_the_one_that_was_loaded() -> None:
    bench = Bench()
    bench.append(5, b"a")
    store(bench.disk, 1, 5)
    replica = Replica(bench.disk).start()
    replica.follow()
    replica.respond(1)
    replica.quorum.write_snapshot(0, 6, [b"a"])
    replica.run()
    assert SnapshotStore(replica.disk, DIRECTORY).read(SnapshotId(1, 6)).last_timestamp_ms == 5


def test_a_snapshot_of_an_empty_log_has_timestamp_0() -> None:
    replica = Replica().start()
    replica.quorum.write_snapshot(-1, 0, [])
    replica.run()
    assert SnapshotStore(replica.disk, DIRECTORY).read(SnapshotId(0, 0)).last_timestamp_ms == 0


def test_a_snapshot_is_due_after_the_interval_unless_one_is_being_written() -> None:
    size = len(fetched(0, 5, b"a"))
    replica = Replica(interval=2 * size).start()
    replica.follow()
    replica.respond(1, fetched(0, 5, b"a"))
    replica.run()
    due = [replica.quorum.snapshot_due]
    replica.respond(2, fetched(1, 5, b"b"))
    replica.run()
    due.append(replica.quorum.snapshot_due)
    replica.quorum.write_snapshot(1, 5, [b"state"])
    due.append(replica.quorum.snapshot_due)
    replica.run()
    due.append(replica.quorum.snapshot_due)
    assert due == [False, True, False, False]


def test_a_snapshot_that_cannot_be_written_is_tried_again() -> None:
    replica = Replica(interval=1).start()
    replica.follow()
    replica.respond(1, fetched(0, 5, b"a"))
    replica.run()
    replica.quorum.write_snapshot(0, 5, [b"a"])
    replica.disk.fail_at(0, errno.ENOSPC)
    replica.run()
    assert replica.log.latest_snapshot() is None
    assert replica.quorum.snapshot_due
    assert replica.seen.events == [("committed", 0)]
    replica.quorum.write_snapshot(0, 5, [b"a"])
    replica.run()
    assert replica.log.latest_snapshot() == (1, 5)


def test_a_closed_replica_deletes_nothing_after_a_snapshot() -> None:
    replica = Replica(interval=1).start()
    replica.follow()
    replica.respond(1, fetched(0, 5, b"a"))
    replica.run()
    replica.quorum.write_snapshot(0, 5, [b"a"])
    replica.quorum.close()
    replica.run()
    assert replica.log.latest_snapshot() is None
    assert file_name(1, 5) in replica.disk.listdir(DIRECTORY)


def test_the_only_voter_writes_a_snapshot_while_its_election_is_stored() -> None:
    bench = Bench()
    bench.append(5, b"a")
    store(bench.disk, 1, 5)
    replica = Replica(bench.disk, voters=1, interval=1)

    def apply(batches: Sequence[CommittedBatch]) -> None:
        if replica.quorum.snapshot_due:
            replica.quorum.write_snapshot(batches[-1].last_offset, batches[-1].epoch, [b"a"])

    replica.seen.committed = apply  # type: ignore[method-assign]
    replica.start()
    assert replica.seen.events == [("snapshot", 0, 5), ("leading", 6)]
    assert replica.log.latest_snapshot() == (2, 6)
    assert replica.log.start_offset == 1

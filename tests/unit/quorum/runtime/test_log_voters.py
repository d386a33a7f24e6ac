"""The records of voters in the quorum's log: known at once, after a restart, and with snapshots."""

from __future__ import annotations

import uuid

from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.snapshots import encode_snapshot
from ottla.wire.messages.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from tests.support.raft_log import Bench

LEVEL = KRaftVersionRecord(kraft_version=1)


def voters_of(*node_ids: int) -> VotersRecord:
    return VoterSet(Voter(ReplicaKey(node_id, uuid.UUID(int=1))) for node_id in node_ids).record()


def test_voters_are_known_before_they_are_written_and_after_a_restart() -> None:
    bench = Bench(stepped=True)
    bench.append(1, b"value")
    bench.log.append_controls(1, [LeaderChangeMessage(), LEVEL, voters_of(1)])
    expected = [(2, LEVEL), (3, voters_of(1))]
    assert list(bench.log.voter_records()) == expected
    bench.executor.run_all()
    assert list(Bench(bench.disk).log.voter_records()) == expected


def test_voters_that_are_fetched_are_known() -> None:
    source, bench = Bench(), Bench()
    source.log.append_controls(1, [voters_of(1)])
    source.append(1, b"value")
    source.log.append_controls(1, [voters_of(1, 2)])
    bench.log.append_fetched(source.log.read(0))
    assert list(bench.log.voter_records()) == [(0, voters_of(1)), (2, voters_of(1, 2))]
    bench.log.truncate(2)
    assert list(bench.log.voter_records()) == [(0, voters_of(1))]


def test_a_snapshot_has_the_voters_of_the_log_before_it() -> None:
    bench = Bench()
    bench.log.append_controls(1, [voters_of(1)])
    bench.log.append_controls(1, [voters_of(1, 2)])
    bench.snapshot(1, 1, [LEVEL, voters_of(1)])
    assert list(bench.log.snapshot_controls()) == [LEVEL, voters_of(1)]
    assert list(bench.log.voter_records()) == [(1, voters_of(1, 2))]


def test_an_installed_snapshot_replaces_all_voters() -> None:
    bench = Bench()
    bench.log.append_controls(1, [voters_of(1)])
    snapshot = OffsetAndEpoch(40, 7)
    data = encode_snapshot((), epoch=7, last_timestamp_ms=0, controls=[LEVEL, voters_of(3)], now_ms=0)
    bench.log.write_snapshot_part(snapshot, 0, data)
    bench.log.install_snapshot(snapshot)
    for log in (bench.log, Bench(bench.disk).log):
        assert list(log.snapshot_controls()) == [LEVEL, voters_of(3)]
        assert list(log.voter_records()) == []

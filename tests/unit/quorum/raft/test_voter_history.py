"""The voters of a log: static ones, those of a snapshot, and records that are truncated or replaced."""

from __future__ import annotations

import uuid

from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.raft.voter_history import VoterHistory
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.testing.cores.memory_log import Batch, Image, MemoryLog
from ottla.wire.messages.control import KRaftVersionRecord

STATIC = VoterSet([Voter(ReplicaKey(9))])
DYNAMIC = KRaftVersionRecord(kraft_version=1)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, uuid.UUID(int=1))


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(Voter(key(node_id)) for node_id in node_ids)


def log_of(*sets: VoterSet, base: VoterSet | None = None) -> MemoryLog:
    """A log behind a snapshot at offset 10 with the set `base`; every set has a batch of one record."""
    controls = () if base is None else (DYNAMIC, base.record())
    batches = tuple(Batch(at, at + 1, 1, (), (each.record(),)) for at, each in enumerate(sets, 10))
    return MemoryLog(Image(OffsetAndEpoch(10, 1), batches, controls))


def test_without_records_the_voters_are_static() -> None:
    history = VoterHistory(STATIC, MemoryLog())
    assert (history.last.voters, history.last.offset, history.kraft_version) == (STATIC, -1, 0)
    assert history.controls_at(5) == []


def test_the_newest_record_counts() -> None:
    history = VoterHistory(STATIC, log_of(voters(1, 2), voters(1, 2, 3), base=voters(1)))
    assert [each.offset for each in history.sets] == [9, 10, 11]
    assert history.last.voters == voters(1, 2, 3)
    assert history.kraft_version == 1


def test_a_truncated_record_restores_the_set_before_it() -> None:
    log = log_of(voters(1, 2), voters(1, 2, 3), base=voters(1))
    history = VoterHistory(STATIC, log)
    for offset, expected in ((11, voters(1, 2)), (10, voters(1))):
        log.truncate(offset)
        history.refresh()
        assert history.last.voters == expected


def test_a_snapshot_replaces_all_records() -> None:
    log = log_of(voters(1, 2), base=voters(1))
    history = VoterHistory(STATIC, log)
    log.take_snapshot(11, history.controls_at)
    history.refresh()
    assert [(each.offset, each.voters) for each in history.sets] == [(10, voters(1, 2))]
    assert history.kraft_version == 1


def test_a_voter_leaves_until_its_removal_is_known_to_be_committed() -> None:
    history = VoterHistory(STATIC, log_of(voters(2, 3), voters(2, 3), base=voters(1, 2, 3)))
    assert [history.is_leaving(key(1), at) for at in (-1, 10, 11)] == [True, True, False]
    assert not history.is_leaving(key(2), -1)
    assert not history.is_leaving(key(4), -1)


def test_a_voter_has_left_when_another_change_follows() -> None:
    history = VoterHistory(STATIC, log_of(voters(2, 3), voters(3), base=voters(1, 2, 3)))
    assert not history.is_leaving(key(1), -1)
    assert history.is_leaving(key(2), -1)

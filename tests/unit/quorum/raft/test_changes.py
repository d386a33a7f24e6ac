"""Changes of the voters, step by step: when they are accepted, in force, committed, withdrawn, and what follows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.rng import Random
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    BeginEpoch,
    Changed,
    Effect,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchResponse,
    OffsetAndEpoch,
    ProbeVoter,
    Respond,
    Send,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.testing.cores.memory_log import Batch, Image, MemoryLog, pack
from ottla.wire.messages.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord

LONG_MS = 100_000.0
NO_VOTERS = VoterSet(())


def key(node_id: int, disk: int = 1) -> ReplicaKey:
    return ReplicaKey(node_id, uuid.UUID(int=disk))


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(Voter(key(node_id)) for node_id in node_ids)


def formatted(*node_ids: int) -> Image:
    controls = (KRaftVersionRecord(kraft_version=1), voters(*node_ids).record())
    return Image(OffsetAndEpoch(0, 0), (), controls)


class Node:
    """A core with what it has done; the other replicas are played by the test."""

    def __init__(self, image: Image, node_id: int = 0, **options: Any) -> None:
        self.log = MemoryLog(image)
        self.core = Core(
            key(node_id), NO_VOTERS, self.log, ElectionState(), Random(1), bootstrap=(7,), **options
        )
        self.now = 0.0
        self.effects: list[Effect] = []
        self.core.start(0)

    def take(self) -> list[Effect]:
        taken = self.core.take_effects()
        self.effects += taken
        return taken

    def results(self) -> list[tuple[Any, ErrorCode]]:
        self.take()
        return [(each.token, each.error) for each in self.effects if isinstance(each, Changed)]

    def sent(self) -> dict[int, Any]:
        return {each.node_id: each.request for each in self.take() if isinstance(each, Send)}

    def flush(self) -> None:
        while self.log.has_unfinished_writes:
            self.log.finish_write()
        self.core.durable(self.now)

    def pass_time(self, milliseconds: float) -> None:
        self.now += milliseconds
        self.core.tick(self.now)

    def elect(self, *granting: int) -> None:
        """Win the pre-vote and the election with these votes."""
        self.pass_time(LONG_MS)
        for _ in range(2):
            requests = self.sent()
            for node_id in granting:
                response = VoteResponse(ErrorCode.NONE, self.core.epoch, -1, True)
                self.core.responded(self.now, node_id, requests[node_id], response)
        assert self.core.role is Role.LEADER
        self.flush()

    def fetched_by(self, replica: ReplicaKey, offset: int | None = None) -> None:
        """A replica fetches from this offset; it has all records below it, by default the whole log."""
        at = self.log.end_offset if offset is None else offset
        fetch = Fetch(replica, self.core.epoch, at, self.log.last_epoch if at else 0, -1, 0)
        self.core.receive(self.now, "fetch", fetch)

    def probe_answered(self, voter: ReplicaKey, versions: tuple[int, int] | None = (0, 1)) -> None:
        self.take()
        assert any(isinstance(each, ProbeVoter) and each.voter.key == voter for each in self.effects)
        self.core.probed(self.now, voter, versions)

    @property
    def ids(self) -> tuple[int, ...]:
        return self.core.voters.ids


def leading(*node_ids: int, **options: Any) -> Node:
    """Node 0 as the leader of these voters, with a committed record of its epoch."""
    node = Node(formatted(*node_ids), **options)
    granting = [each for each in node_ids if each][: len(node_ids) // 2]
    if granting:
        node.elect(*granting)
    node.flush()
    for each in granting:
        node.fetched_by(key(each))
    node.take()
    assert node.core.high_watermark == node.log.end_offset
    return node


def add(node: Node, voter: ReplicaKey, *, wait: bool = True) -> None:
    node.core.add_voter(node.now, "add", Voter(voter), 1000, wait_for_commit=wait)


def remove(node: Node, voter: ReplicaKey) -> None:
    node.core.remove_voter(node.now, "remove", voter, 1000)


# The log has the voters


def test_the_first_leader_writes_the_voters_of_a_formatted_directory_to_the_log() -> None:
    node = leading(0)
    kinds = [type(each) for each in node.log.batches[0].controls]
    assert kinds == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert node.core.history.last.offset == 2
    assert node.ids == (0,)


def test_a_later_leader_writes_the_voters_only_if_its_addresses_are_others() -> None:
    first = ListenerAddress("CONTROLLER", "one", 1)
    node = leading(0, listeners=(first,))
    again = Node(Image(*node.log.crash(9)), listeners=(first,))
    assert [type(each) for each in again.log.batches[-1].controls] == [LeaderChangeMessage]
    moved = Node(Image(*node.log.crash(9)), listeners=(first._replace(port=2),))
    record = moved.log.batches[-1].controls[-1]
    assert isinstance(record, VotersRecord)
    assert record.voters[0].endpoints[0].port == 2
    assert moved.ids == (0,)


def test_a_follower_uses_an_uncommitted_set_and_returns_to_the_former_when_it_is_truncated() -> None:
    node = Node(formatted(0, 1, 2))
    node.core.receive(0, "begin", BeginEpoch(1, key(0), 1))
    batch = Batch(0, 1, 1, (), (voters(0, 1, 2, 3).record(),))
    node.core.responded(0, 1, node.sent()[1], FetchResponse(ErrorCode.NONE, 1, 1, 0, pack([batch])))
    assert node.ids == (0, 1, 2, 3)
    node.flush()
    node.core.receive(0, "begin", BeginEpoch(2, key(0), 2))
    diverging = FetchResponse(ErrorCode.NONE, 2, 2, 0, diverging=OffsetAndEpoch(0, 0))
    node.core.responded(0, 2, node.sent()[2], diverging)
    assert node.ids == (0, 1, 2)


def test_a_replica_in_another_directory_is_not_the_voter() -> None:
    log = MemoryLog(formatted(0, 1, 2))
    core = Core(key(0, disk=2), NO_VOTERS, log, ElectionState(), Random(1))
    core.start(0)
    assert not core.is_voter
    core.tick(LONG_MS)
    assert core.role is Role.UNATTACHED


def test_a_replica_that_does_not_know_of_its_addition_votes() -> None:
    node = Node(Image(None, ()), node_id=3)
    assert not node.core.is_voter
    node.core.receive(0, "vote", Vote(key(1), key(3), 5, OffsetAndEpoch(9, 4), False))
    (response,) = [each.response for each in node.take() if isinstance(each, Respond)]
    assert response == VoteResponse(ErrorCode.NONE, 5, -1, True)


def test_a_snapshot_has_the_voters_at_its_end() -> None:
    node = leading(0)
    node.core.update_voter(0, "update", Voter(key(0), (ListenerAddress("CONTROLLER", "new", 9),)))
    before, after = node.core.history.controls_at(2), node.core.history.controls_at(3)
    assert [type(each) for each in after] == [KRaftVersionRecord, VotersRecord]
    assert VoterSet.of(before[1]) == voters(0)  # type: ignore[arg-type]
    assert VoterSet.of(after[1]) == node.core.voters  # type: ignore[arg-type]


# Additions


def test_a_voter_is_added_when_it_has_caught_up() -> None:
    node = leading(0)
    add(node, key(1))
    node.probe_answered(key(1))
    assert node.ids == (0,)
    node.fetched_by(key(1), 0)
    assert node.ids == (0,)
    node.fetched_by(key(1))
    assert node.ids == (0, 1)
    node.flush()
    assert node.results() == []  # the new voter does not have the record yet, and is half of the voters
    node.fetched_by(key(1))
    assert node.results() == [("add", ErrorCode.NONE)]
    assert node.core.high_watermark == node.log.end_offset


def test_a_request_that_does_not_wait_gets_its_response_when_the_record_is_appended() -> None:
    node = leading(0)
    add(node, key(1), wait=False)
    node.probe_answered(key(1))
    node.fetched_by(key(1))
    assert node.results() == [("add", ErrorCode.NONE)]
    remove(node, key(1))
    assert node.results()[1:] == [("remove", ErrorCode.REQUEST_TIMED_OUT)]


def test_a_replica_of_the_node_in_another_directory_is_not_added() -> None:
    node = leading(0)
    add(node, key(1))
    node.probe_answered(key(1))
    node.fetched_by(key(1, disk=2))
    assert node.ids == (0,)


@pytest.mark.parametrize(
    ("versions", "error"),
    [
        (None, ErrorCode.REQUEST_TIMED_OUT),
        ((0, 0), ErrorCode.INVALID_REQUEST),
        ((2, 3), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_node_that_does_not_respond_or_is_too_old_is_not_added(
    versions: tuple[int, int] | None, error: ErrorCode
) -> None:
    node = leading(0)
    node.fetched_by(key(1))
    add(node, key(1))
    node.probe_answered(key(1), versions)
    assert node.results() == [("add", error)]
    assert node.ids == (0,)


def test_an_addition_ends_with_its_timeout() -> None:
    node = leading(0)
    add(node, key(1))
    node.probe_answered(key(1))
    assert node.core.wake_at_ms() <= node.now + 1000
    node.pass_time(1000)
    assert node.results() == [("add", ErrorCode.REQUEST_TIMED_OUT)]
    node.fetched_by(key(1))
    assert node.ids == (0,)
    add(node, key(1))
    node.probe_answered(key(1))
    assert node.ids == (0, 1)


def test_a_node_id_is_added_once() -> None:
    node = leading(0)
    add(node, key(0, disk=2))
    assert node.results() == [("add", ErrorCode.DUPLICATE_VOTER)]


# One change at a time


def test_a_second_change_waits_for_the_commit_of_the_first() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    assert node.ids == (0, 1)
    node.pass_time(1000)  # the request ends, its record stays
    remove(node, key(1))
    add(node, key(3))
    node.core.update_voter(node.now, "update", Voter(key(1)))
    late = ErrorCode.REQUEST_TIMED_OUT
    assert node.results() == [("remove", late), ("remove", late), ("add", late), ("update", late)]
    assert node.ids == (0, 1)
    node.flush()
    node.fetched_by(key(1))
    remove(node, key(1))
    assert node.ids == (0,)


def test_a_change_waits_until_the_leader_has_committed_a_record_of_its_epoch() -> None:
    node = Node(formatted(0, 1, 2))
    node.elect(1)
    remove(node, key(2))
    assert node.results() == [("remove", ErrorCode.REQUEST_TIMED_OUT)]
    assert node.ids == (0, 1, 2)


def test_a_new_leader_waits_although_it_knows_that_the_voters_are_committed() -> None:
    """An earlier leader may have appended another change that this one does not have."""
    node = Node(formatted(0, 1, 2))
    node.core.receive(0, "begin", BeginEpoch(1, key(0), 1))
    record = Batch(0, 3, 1, (), (LeaderChangeMessage(), voters(0, 1, 2).record(), LeaderChangeMessage()))
    node.core.responded(0, 1, node.sent()[1], FetchResponse(ErrorCode.NONE, 1, 1, 3, pack([record])))
    node.flush()
    node.elect(2)
    assert node.core.history.last.offset < node.core.high_watermark
    remove(node, key(1))
    assert node.results() == [("remove", ErrorCode.REQUEST_TIMED_OUT)]
    assert node.ids == (0, 1, 2)


def test_a_change_waits_for_one_that_has_no_record_yet() -> None:
    node = leading(0, 1, 2)
    add(node, key(3))
    remove(node, key(2))
    assert node.results() == [("remove", ErrorCode.REQUEST_TIMED_OUT)]
    node.probe_answered(key(3))
    node.fetched_by(key(3))
    assert node.ids == (0, 1, 2, 3)


def test_static_voters_are_not_changed() -> None:
    log = MemoryLog()
    core = Core(ReplicaKey(0), VoterSet([Voter(ReplicaKey(0))]), log, ElectionState(), Random(1))
    core.start(0)
    log.finish_write()
    core.durable(0)
    core.add_voter(0, "add", Voter(key(1)), 1000)
    core.remove_voter(0, "remove", ReplicaKey(0), 1000)
    errors = [each.error for each in core.take_effects() if isinstance(each, Changed)]
    assert errors == [ErrorCode.UNSUPPORTED_VERSION] * 2
    assert [type(each) for each in log.batches[0].controls] == [LeaderChangeMessage]


def test_only_the_leader_changes_the_voters() -> None:
    node = Node(formatted(0, 1, 2))
    remove(node, key(1))
    assert node.results() == [("remove", ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_change_ends_with_the_leadership() -> None:
    node = leading(0)
    add(node, key(1))
    node.core.resign(node.now)
    assert node.results() == [("add", ErrorCode.NOT_LEADER_OR_FOLLOWER)]


# Removals


def test_the_last_voter_and_unknown_ones_are_not_removed() -> None:
    node = leading(0)
    remove(node, key(0))
    remove(node, key(0, disk=2))
    remove(node, key(1))
    assert node.results() == [("remove", ErrorCode.VOTER_NOT_FOUND)] * 3
    assert node.ids == (0,)


def test_a_removed_voter_does_not_count() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    node.flush()
    before = node.core.high_watermark
    node.fetched_by(key(2))
    assert node.core.high_watermark == before
    node.fetched_by(key(1))
    assert node.core.high_watermark == node.log.end_offset
    assert node.results() == [("remove", ErrorCode.NONE)]


def test_a_leader_that_removes_itself_leads_until_that_is_committed_without_its_own_vote() -> None:
    node = leading(0, 1, 2)
    remove(node, key(0))
    node.flush()
    node.fetched_by(key(1))
    assert node.core.role is Role.LEADER
    assert node.results() == []
    node.core.append(node.now, node.core.epoch, [b"more"])
    node.fetched_by(key(2), node.log.end_offset - 1)
    assert node.results() == [("remove", ErrorCode.NONE)]
    assert node.core.role is Role.RESIGNED
    ends = {
        each.node_id: each.request.successors
        for each in node.effects
        if isinstance(each, Send) and isinstance(each.request, EndEpoch)
    }
    assert ends == {1: (key(1), key(2)), 2: (key(1), key(2))}
    node.pass_time(LONG_MS)
    node.pass_time(LONG_MS)
    assert node.core.role is Role.UNATTACHED


def test_a_voter_that_restarts_before_its_removal_is_committed_can_still_lead() -> None:
    """Node 1 lacks the record, so it gets no vote of node 0, which alone has it: node 0 has to commit it."""
    node = leading(0, 1)
    remove(node, key(0))
    node.flush()
    again = Node(Image(*node.log.crash(9)))
    assert (again.ids, again.core.is_voter, again.core.can_vote) == ((1,), False, True)
    again.elect(1)
    again.fetched_by(key(1))
    assert again.core.role is Role.RESIGNED


def test_a_removed_voter_starts_no_election_once_its_removal_is_known_to_be_committed() -> None:
    node = Node(formatted(0, 1, 2))
    node.core.receive(0, "begin", BeginEpoch(1, key(0), 1))
    removal = Batch(0, 2, 1, (), (LeaderChangeMessage(), voters(1, 2).record()))
    node.core.responded(0, 1, node.sent()[1], FetchResponse(ErrorCode.NONE, 1, 1, 0, pack([removal])))
    assert node.core.can_vote
    node.flush()
    node.core.responded(0, 1, node.sent()[1], FetchResponse(ErrorCode.NONE, 1, 1, 2))
    assert not node.core.can_vote
    node.pass_time(LONG_MS)
    assert node.core.role is Role.UNATTACHED


# Updates


def test_an_update_replaces_the_addresses_of_a_voter() -> None:
    node = leading(0, 1, 2)
    moved = Voter(key(1), (ListenerAddress("CONTROLLER", "moved", 5),))
    node.core.update_voter(node.now, "update", moved)
    assert node.results() == [("update", ErrorCode.NONE)]
    assert node.core.voters.get(1) == moved
    assert node.ids == (0, 1, 2)


@pytest.mark.parametrize(
    ("voter", "error"),
    [
        (Voter(key(3)), ErrorCode.VOTER_NOT_FOUND),
        (Voter(key(1, disk=2)), ErrorCode.VOTER_NOT_FOUND),
        (Voter(key(1), kraft_versions=(0, 0)), ErrorCode.INVALID_REQUEST),
        (Voter(key(1), kraft_versions=(2, 3)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_updates_are_refused(voter: Voter, error: ErrorCode) -> None:
    node = leading(0, 1, 2)
    node.core.update_voter(node.now, "update", voter)
    assert node.results() == [("update", error)]
    assert node.core.voters == voters(0, 1, 2)

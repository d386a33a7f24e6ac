"""A change of the voters in force: what is reported, who is asked and counted from then on, what is withdrawn."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.messages import (
    BeginEpoch,
    Changed,
    Committed,
    EndEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    ProbeVoter,
    Respond,
    Vote,
    VotersChanged,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import Voter
from ottla.testing.cores.memory_log import Batch, SnapshotBytes, pack
from ottla.wire.messages.control import KRaftVersionRecord, LeaderChangeMessage
from tests.unit.quorum.raft.test_changes import Node, add, formatted, key, leading, remove, voters


def changed(node: Node) -> list[VotersChanged]:
    return [each for each in node.take() if isinstance(each, VotersChanged)]


def following() -> Node:
    """Node 0 of the voters 0, 1 and 2 follows node 1 in epoch 1."""
    node = Node(formatted(0, 1, 2))
    node.core.receive(0, "begin", BeginEpoch(1, key(0), 1))
    return node


def test_a_new_set_of_voters_is_reported_once() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    assert changed(node) == [VotersChanged(voters(0, 1))]
    node.flush()
    node.fetched_by(key(1))
    assert changed(node) == []


def test_records_without_voters_report_no_change() -> None:
    node = following()
    request = node.sent()[1]
    batch = Batch(0, 1, 1, (b"value",))
    node.core.responded(0, 1, request, FetchResponse(ErrorCode.NONE, 1, 1, 0, pack([batch])))
    assert changed(node) == []


def test_a_follower_reports_the_voters_of_a_fetched_record_and_of_a_truncation() -> None:
    node = following()
    request = node.sent()[1]
    batch = Batch(0, 1, 1, (), (voters(0, 1, 2, 3).record(),))
    node.core.responded(0, 1, request, FetchResponse(ErrorCode.NONE, 1, 1, 0, pack([batch])))
    assert changed(node) == [VotersChanged(voters(0, 1, 2, 3))]
    node.flush()
    node.core.receive(0, "begin", BeginEpoch(2, key(0), 2))
    request = node.sent()[2]
    diverging = FetchResponse(ErrorCode.NONE, 2, 2, 0, diverging=OffsetAndEpoch(0, 0))
    node.core.responded(0, 2, request, diverging)
    assert changed(node) == [VotersChanged(voters(0, 1, 2))]


def test_the_voters_of_an_installed_snapshot_are_in_force() -> None:
    node = following()
    snapshot = OffsetAndEpoch(40, 1)
    node.core.responded(0, 1, node.sent()[1], FetchResponse(ErrorCode.NONE, 1, 1, 50, snapshot=snapshot))
    data = SnapshotBytes(b"x")
    data.controls = (KRaftVersionRecord(kraft_version=1), voters(0, 1, 4).record())
    part = FetchSnapshotResponse(ErrorCode.NONE, 1, 1, snapshot, 1, 0, data)
    node.core.responded(0, 1, node.sent()[1], part)
    assert node.ids == (0, 1, 4)
    assert changed(node) == [VotersChanged(voters(0, 1, 4))]


def test_a_resigning_leader_notifies_the_voters_in_force() -> None:
    node = leading(0, 1, 2)
    add(node, key(3))
    node.probe_answered(key(3))
    node.fetched_by(key(3))
    assert node.ids == (0, 1, 2, 3)
    node.take()
    node.core.resign(node.now)
    assert {at for at, one in node.sent().items() if isinstance(one, EndEpoch)} == {1, 2, 3}


def test_a_candidate_requests_the_votes_of_the_voters_in_force() -> None:
    node = following()
    batch = Batch(0, 1, 1, (), (voters(0, 1, 3).record(),))
    node.core.responded(0, 1, node.sent()[1], FetchResponse(ErrorCode.NONE, 1, 1, 0, pack([batch])))
    node.flush()
    node.take()
    node.core.peer_lost(0, 1)
    votes = node.sent()
    assert votes == {node_id: Vote(key(0), key(node_id), 1, OffsetAndEpoch(1, 1), True) for node_id in (1, 3)}


def test_a_leader_notifies_an_added_voter_of_its_epoch() -> None:
    node = leading(0)
    add(node, key(1))
    node.probe_answered(key(1))
    node.fetched_by(key(1))
    node.take()
    node.pass_time(1000)
    assert node.sent()[1] == BeginEpoch(0, key(1), 1)


def test_a_smaller_set_of_voters_commits_what_its_majority_has() -> None:
    """With four voters three must have a record, with three of them two."""
    node = leading(0, 1, 2, 3)
    node.core.append(node.now, node.core.epoch, [b"value"])
    node.flush()
    node.fetched_by(key(1))
    end_offset = node.log.end_offset
    assert node.core.high_watermark == end_offset - 1
    node.take()
    remove(node, key(3))
    assert node.core.high_watermark == end_offset
    assert Committed(end_offset) in node.take()


def test_fetches_that_wait_get_a_new_set_of_voters() -> None:
    node = leading(0, 1, 2)
    at, epoch = node.log.end_offset, node.core.epoch
    node.core.receive(node.now, "waits", Fetch(key(1), epoch, at, epoch, at, 500))
    assert not [each for each in node.take() if isinstance(each, Respond)]
    remove(node, key(2))
    (response,) = [each.response for each in node.take() if isinstance(each, Respond)]
    assert isinstance(response, FetchResponse)
    assert response.records


def test_an_addition_that_has_timed_out_is_forgotten_by_its_probe() -> None:
    node = leading(0)
    add(node, key(1))
    node.pass_time(1000)
    assert node.results() == [("add", ErrorCode.REQUEST_TIMED_OUT)]
    node.fetched_by(key(1))
    node.core.probed(node.now, key(1), (0, 1))
    assert node.ids == (0,)


def test_the_probe_of_another_replica_does_not_count() -> None:
    node = leading(0)
    node.fetched_by(key(1))
    add(node, key(1))
    node.core.probed(node.now, key(1, disk=2), (0, 1))
    assert node.ids == (0,)
    node.probe_answered(key(1))
    assert node.ids == (0, 1)


def test_a_late_probe_of_an_earlier_request_does_not_end_a_later_one() -> None:
    node = leading(0)
    add(node, key(1))
    node.pass_time(1000)
    add(node, key(1))
    node.probe_answered(key(1))
    node.core.probed(node.now, key(1), None)
    assert node.results() == [("add", ErrorCode.REQUEST_TIMED_OUT)]
    node.fetched_by(key(1))
    assert node.ids == (0, 1)


def test_a_late_probe_changes_nothing_while_a_voter_is_removed() -> None:
    node = leading(0, 1, 2)
    add(node, key(3))
    node.pass_time(1000)
    remove(node, key(2))
    node.core.probed(node.now, key(3), (0, 1))
    node.fetched_by(key(3))
    assert node.ids == (0, 1)


def test_an_added_voter_is_recorded_with_its_addresses_and_versions() -> None:
    node = leading(0)
    at = (ListenerAddress("CONTROLLER", "new", 9),)
    node.core.add_voter(node.now, "add", Voter(key(1), at), 1000)
    assert ProbeVoter(Voter(key(1), at)) in node.take()
    node.core.probed(node.now, key(1), (1, 3))
    node.fetched_by(key(1))
    assert node.core.voters.get(1) == Voter(key(1), at, (1, 3))


def test_a_change_that_is_not_committed_in_time_stays_in_force_and_its_request_ends() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    node.take()
    assert node.core.wake_at_ms() <= node.now + 1000
    node.pass_time(999)
    assert node.results() == []
    node.pass_time(1)
    assert node.results() == [("remove", ErrorCode.REQUEST_TIMED_OUT)]
    assert node.ids == (0, 1)
    node.flush()
    node.fetched_by(key(1))
    assert node.results() == [("remove", ErrorCode.REQUEST_TIMED_OUT)]


def test_a_change_that_was_appended_ends_with_the_leadership_but_not_its_record() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    node.core.resign(node.now)
    (result,) = [each for each in node.take() if isinstance(each, Changed)]
    assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.ids == (0, 1)


def test_a_removed_voter_does_not_keep_the_leader_in_office() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    node.flush()
    for _ in range(4):
        node.pass_time(1000)
        node.fetched_by(key(2))
    assert node.core.role is Role.RESIGNED


def test_a_voter_that_was_removed_is_not_notified_any_more() -> None:
    node = leading(0, 1, 2)
    remove(node, key(2))
    node.flush()
    node.fetched_by(key(1))
    node.take()
    node.pass_time(1000)
    assert node.sent() == {1: BeginEpoch(0, key(1), 1)}


def test_a_follower_that_loses_a_leader_asks_the_voters_in_force() -> None:
    """A voter that recovers, or an observer, knows them from its log."""
    node = Node(formatted(1, 2))
    asked = set()
    for _ in range(40):
        for node_id, request in node.sent().items():
            asked.add(node_id)
            node.core.failed(node.now, node_id, request)
        node.pass_time(100)
    assert asked == {1, 2, 7}
    change = Batch(0, 2, 1, (), (LeaderChangeMessage(), voters(1, 2, 3).record()))
    node.core.receive(node.now, "begin", BeginEpoch(1, key(0), 1))
    fetched = FetchResponse(ErrorCode.NONE, 1, 1, 0, pack([change]))
    node.core.responded(node.now, 1, node.sent()[1], fetched)
    node.flush()
    node.take()
    node.core.peer_lost(node.now, 1)
    for _ in range(40):
        for node_id, request in node.sent().items():
            asked.add(node_id)
            node.core.failed(node.now, node_id, request)
        node.pass_time(100)
    assert asked == {1, 2, 3, 7}


def test_a_replica_that_is_no_voter_is_not_removed() -> None:
    """Also if others could be: the set would be recorded again."""
    node = leading(0, 1, 2)
    end_offset = node.log.end_offset
    for other in (key(3), key(1, disk=2)):
        remove(node, other)
    assert node.results() == [("remove", ErrorCode.VOTER_NOT_FOUND)] * 2
    assert node.log.end_offset == end_offset


def test_the_result_of_a_removal_says_why_it_is_refused() -> None:
    node = leading(0)
    remove(node, key(0))
    remove(node, key(1))
    last, unknown = [each.message for each in node.take() if isinstance(each, Changed)]
    assert "last voter" in last
    assert "no voter has this" in unknown


def test_the_replica_wakes_for_the_timeout_of_a_change() -> None:
    node = leading(0, 1, 2)
    node.pass_time(10)
    assert node.core.wake_at_ms() > node.now + 300
    node.core.remove_voter(node.now, "remove", key(2), 300)
    assert node.core.wake_at_ms() == node.now + 300


def test_a_voter_that_supports_only_the_level_of_the_cluster_is_updated() -> None:
    node = leading(0, 1, 2)
    only = Voter(key(1), kraft_versions=(1, 1))
    node.core.update_voter(node.now, "update", only)
    assert node.results() == [("update", ErrorCode.NONE)]
    assert node.core.voters.get(1) == only


def test_a_request_that_did_not_wait_has_no_second_result() -> None:
    node = leading(0, 1, 2)
    add(node, key(3), wait=False)
    node.probe_answered(key(3))
    node.fetched_by(key(3))
    assert node.results() == [("add", ErrorCode.NONE)]
    node.core.resign(node.now)
    assert node.results() == [("add", ErrorCode.NONE)]

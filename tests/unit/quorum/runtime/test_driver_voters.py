"""Changes of the voters on a node: the probe of a new voter, results, addresses, snapshots and automatic joining."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.quorum.control_records import control_batch
from ottla.quorum.quorum import ListenerAddress, VoterChange
from ottla.quorum.raft.messages import BeginEpoch, FetchResponse
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.runtime.translation import LeaderAddress, encode_request, encode_response
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.testing.disk import SimDisk
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.wire.messages.control import KRaftVersionRecord, VotersRecord
from tests.support.raft_log import DIRECTORY
from tests.support.raft_replica import CLUSTER, Replica, Unreachable

OWN = (ListenerAddress("CONTROLLER", "zero", 9000),)
ONE = VoterChange(1, ZERO_UUID, (ListenerAddress("CONTROLLER", "one", 9001),))
SUPPORTED = ApiVersionsResponse(
    supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
)


def formatted(*node_ids: int) -> SimDisk:
    """The disk of a new quorum with these voters."""
    disk = SimDisk(random.Random(1))
    disk.makedirs(DIRECTORY)
    voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in node_ids)
    controls = [KRaftVersionRecord(kraft_version=1), voters.record()]
    data = encode_snapshot((), epoch=0, last_timestamp_ms=0, controls=controls, now_ms=0)
    SnapshotStore(disk, DIRECTORY).write(SnapshotId(0, 0), data)
    return disk


def replica(*node_ids: int, **settings: Any) -> Replica:
    made = Replica(formatted(*node_ids), voters=0, static=False, dynamic=True, own=OWN, **settings)
    return made.start()


def probe(node: Replica) -> Any:
    sent = node.outstanding(1)
    assert isinstance(sent.request, ApiVersionsRequest)
    return sent


def test_a_voter_is_probed_at_its_address_and_added() -> None:
    leader = replica(0)
    result = leader.quorum.add_voter(ONE, 1000, wait_for_commit=True)
    assert leader.addresses == {1: ("one", 9001)}
    assert (probe(leader).timeout_s, list(probe(leader).versions)) == (2.0, [4])
    probe(leader).promise.keep(SUPPORTED)
    leader.fetch(leader.log.end_offset)
    leader.run()
    assert not result.done
    leader.fetch(leader.log.end_offset)
    leader.run()
    assert result.result().error is ErrorCode.NONE
    assert [voter.listeners for voter in leader.quorum.describe().voters] == [OWN, ONE.listeners]


@pytest.mark.parametrize("error", [True, False])
def test_a_voter_that_does_not_respond_is_not_added(error: bool) -> None:
    leader = replica(0)
    result = leader.quorum.add_voter(ONE, 1000, wait_for_commit=True)
    if error:
        probe(leader).promise.fail(Unreachable())
    else:
        probe(leader).promise.keep(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert result.result().error is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(("timeout_ms", "ends_s"), [(0, 2), (5_000, 5), (10**9, 30)])
def test_a_request_waits_for_a_new_voter_within_limits(timeout_ms: int, ends_s: int) -> None:
    leader = replica(0)
    result = leader.quorum.add_voter(ONE, timeout_ms, wait_for_commit=True)
    probe(leader).promise.keep(SUPPORTED)
    leader.advance(ends_s - 0.01)
    assert not result.done
    leader.advance(0.02)
    assert result.result().error is ErrorCode.REQUEST_TIMED_OUT


def test_a_voter_is_removed_and_updated() -> None:
    leader = replica(0)
    assert leader.quorum.remove_voter(0, ZERO_UUID).result().error is ErrorCode.VOTER_NOT_FOUND
    moved = VoterChange(0, ZERO_UUID, ONE.listeners, (0, 1))
    assert leader.quorum.update_voter(moved).result().error is ErrorCode.NONE
    assert leader.quorum.describe().voters[0].listeners == ONE.listeners


def test_a_change_ends_with_the_replica() -> None:
    leader = replica(0)
    result = leader.quorum.add_voter(ONE, 1000, wait_for_commit=True)
    leader.quorum.close()
    assert result.result().error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    late = leader.quorum.add_voter(ONE, 1000, wait_for_commit=True)
    assert late.result().error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    probe(leader).promise.keep(SUPPORTED)


def test_a_snapshot_has_the_voters() -> None:
    leader = replica(0)
    end = leader.log.end_offset
    leader.quorum.write_snapshot(end - 1, 1, [b"value"])
    leader.run()
    level, voters = SnapshotStore(leader.disk, DIRECTORY).read(SnapshotId(end, 1)).controls
    assert level == KRaftVersionRecord(kraft_version=1)
    assert isinstance(voters, VotersRecord)
    assert [(each.voter_id, each.endpoints[0].host) for each in voters.voters] == [(0, "zero")]


def test_the_address_of_a_leader_is_learned_from_its_messages() -> None:
    node = replica(0, 1, 2)
    begin = encode_request(BeginEpoch(1, ReplicaKey(0), 5), CLUSTER, ONE.listeners).message
    node.quorum.receive(begin)
    node.run()
    assert node.addresses == {1: ("one", 9001)}
    elsewhere = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, 2)
    node.outstanding(1).promise.keep(encode_response(elsewhere, 0, LeaderAddress(2, "two", 9002)))
    node.run()
    assert node.addresses == {1: ("one", 9001), 2: ("two", 9002)}


def test_the_addresses_of_static_voters_are_those_of_the_settings() -> None:
    node = Replica().start()
    node.quorum.receive(encode_request(BeginEpoch(1, ReplicaKey(0), 5), CLUSTER, ONE.listeners).message)
    node.run()
    assert node.quorum.leader_id == 1
    assert node.addresses == {}


def test_bootstrap_servers_are_asked_for_the_leader() -> None:
    node = Replica(voters=0, static=False, dynamic=True, bootstrap=(-2,)).start()
    found = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1)
    node.outstanding(-2).promise.keep(encode_response(found, 0, LeaderAddress(1, "one", 9001)))
    node.run()
    assert node.addresses == {1: ("one", 9001)}
    assert node.outstanding(1)


def test_an_observer_joins_by_itself_and_tries_again() -> None:
    node = replica(1, auto_join=True)
    node.follow()
    for error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE, None):
        node.advance(1.0)
        node.respond(0)
        node.advance(1.1)
        sent = [one for one in node.sent if isinstance(one.request, AddRaftVoterRequest)][-1]
        assert not sent.promise.done
        if error is None:
            sent.promise.fail(Unreachable())
        else:
            sent.promise.keep(AddRaftVoterResponse(error_code=error))
    node.quorum.close()
    count = len(node.sent)
    node.advance(10)
    assert len(node.sent) == count


def test_the_addresses_of_the_voters_in_the_log_are_known_from_the_start() -> None:
    disk = SimDisk(random.Random(1))
    disk.makedirs(DIRECTORY)
    one, two = Voter(ReplicaKey(1), ONE.listeners), Voter(ReplicaKey(0), OWN)
    controls = [KRaftVersionRecord(kraft_version=1), VoterSet([one, two]).record()]
    data = encode_snapshot((), epoch=0, last_timestamp_ms=0, controls=controls, now_ms=0)
    SnapshotStore(disk, DIRECTORY).write(SnapshotId(0, 0), data)
    node = Replica(disk, voters=0, static=False, dynamic=True, own=OWN).start()
    assert node.addresses == {1: ("one", 9001)}


def test_the_addresses_of_new_voters_are_learned_from_the_log() -> None:
    node = replica(0, 1, 2)
    node.follow()
    three = Voter(
        ReplicaKey(3), (ListenerAddress("OTHER", "no", 1), ListenerAddress("controller", "three", 9003))
    )
    record = VoterSet([Voter(ReplicaKey(0)), Voter(ReplicaKey(1)), three]).record()
    node.respond(0, control_batch([record], base_offset=0, epoch=5, now_ms=0))
    assert node.addresses == {3: ("three", 9003)}
    node.run()
    assert [one.node_id for one in node.quorum.describe().voters] == [0, 1, 3]


def test_a_response_has_the_address_of_the_leader_that_it_names() -> None:
    node = Replica(listeners=ONE.listeners).start()
    node.follow()
    response: Any = node.fetch(0).result()
    assert [(at.node_id, at.host, at.port) for at in response.node_endpoints] == [(1, "one", 9001)]
    stale: Any = Replica(listeners=ONE.listeners).start().fetch(0).result()
    assert stale.node_endpoints == []


def test_the_announcement_of_a_leader_has_its_addresses() -> None:
    leader = replica(0, 1, 2)
    leader.elect()
    begun = [one for one in leader.sent if isinstance(one.request, BeginEpoch)]
    assert [one.node_id for one in begun] == [1, 2]
    assert begun[0].message.leader_endpoints[0].host == "zero"


def test_a_voter_is_removed_when_its_removal_is_committed() -> None:
    leader = replica(0, 1, 2)
    leader.lead()
    result = leader.quorum.remove_voter(2, ZERO_UUID)
    leader.run()
    assert not result.done
    assert [one.node_id for one in leader.quorum.describe().voters] == [0, 1]
    leader.fetch(leader.log.end_offset)
    leader.run()
    assert result.result().error is ErrorCode.NONE


def test_a_removal_that_is_not_committed_ends_with_the_request_timeout() -> None:
    leader = replica(0, 1, 2)
    leader.lead()
    result = leader.quorum.remove_voter(2, ZERO_UUID)
    leader.advance(1.9)
    assert not result.done
    leader.advance(0.2)
    assert result.result().error is ErrorCode.REQUEST_TIMED_OUT


def test_a_request_that_does_not_wait_for_the_commit_ends_when_the_voter_is_in_the_log() -> None:
    leader = replica(0)
    result = leader.quorum.add_voter(ONE, 1000, wait_for_commit=False)
    probe(leader).promise.keep(SUPPORTED)
    assert not result.done
    leader.fetch(leader.log.end_offset)
    assert result.result().error is ErrorCode.NONE
    assert leader.quorum.describe().voters[1].listeners == ONE.listeners


def test_a_closed_replica_does_not_try_to_join_again() -> None:
    node = replica(1, auto_join=True)
    node.follow()
    node.advance(1.0)
    node.respond(0)
    node.advance(1.1)
    (sent,) = [one for one in node.sent if isinstance(one.request, AddRaftVoterRequest)]
    assert (sent.node_id, sent.timeout_s, sent.versions) == (1, 4.0, None)
    node.quorum.close()
    sent.promise.fail(Unreachable())
    assert node.armed == []


def test_static_voters_do_not_try_to_join() -> None:
    node = Replica(own=OWN, auto_join=True).start()
    node.follow()
    node.advance(1.0)
    node.respond(0)
    node.advance(1.5)
    assert not [one for one in node.sent if isinstance(one.request, AddRaftVoterRequest)]
    assert len(node.armed) == 1

"""What a follower requests of the leader: an update, an addition, or the removal of its former directory."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.rng import Random
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import BeginEpoch, ElectionState, OffsetAndEpoch
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.runtime.upkeep import due_request, kraft_versions
from ottla.testing.cores.memory_log import Image, MemoryLog
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
from ottla.wire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from ottla.wire.messages.control import KRaftVersionRecord
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from ottla.wire.schema import Message

OWN = (ListenerAddress("CONTROLLER", "own", 9093),)
LEADER = Voter(ReplicaKey(1, uuid.UUID(int=1)))
NEW, FORMER = uuid.UUID(int=22), uuid.UUID(int=21)


def follower(*voters: Voter, level: int = 1) -> Core:
    """Node 2 in directory NEW follows node 1 in epoch 5."""
    controls = (KRaftVersionRecord(kraft_version=level), VoterSet([LEADER, *voters]).record())
    log = MemoryLog(Image(OffsetAndEpoch(0, 0), (), controls))
    core = Core(ReplicaKey(2, NEW), VoterSet(()), log, ElectionState(), Random(1))
    core.start(0)
    core.receive(0, "begin", BeginEpoch(1, core.local, 5))
    return core


def due(core: Core, *, auto_join: bool = False, listeners: Any = OWN) -> Message | None:
    found = due_request(core, "cluster", listeners, 2000, auto_join=auto_join)
    return None if found is None else found[0]


def test_a_voter_with_other_addresses_sends_an_update() -> None:
    request = due(follower(Voter(ReplicaKey(2, NEW), (OWN[0]._replace(host="former"),))))
    assert isinstance(request, UpdateRaftVoterRequest)
    assert (request.cluster_id, request.current_leader_epoch) == ("cluster", 5)
    assert (request.voter_id, request.voter_directory_id) == (2, NEW)
    assert [(at.name, at.host, at.port) for at in request.listeners] == list(OWN)
    versions = request.kraft_version_feature
    assert (versions.min_supported_version, versions.max_supported_version) == (0, 1)


def test_a_voter_with_its_addresses_sends_nothing() -> None:
    assert due(follower(Voter(ReplicaKey(2, NEW), OWN)), auto_join=True) is None


def test_an_observer_joins_only_if_it_is_allowed_to() -> None:
    assert due(follower()) is None
    request = due(follower(), auto_join=True)
    assert isinstance(request, AddRaftVoterRequest)
    assert (request.cluster_id, request.timeout_ms, request.ack_when_committed) == ("cluster", 2000, False)
    assert (request.voter_id, request.voter_directory_id) == (2, NEW)
    assert [(at.name, at.host, at.port) for at in request.listeners] == list(OWN)


def test_the_voter_of_a_former_directory_is_removed_first() -> None:
    core = follower(Voter(ReplicaKey(2, FORMER), OWN))
    assert due(core) is None
    request = due(core, auto_join=True)
    assert isinstance(request, RemoveRaftVoterRequest)
    assert (request.cluster_id, request.voter_id, request.voter_directory_id) == ("cluster", 2, FORMER)


def test_static_voters_and_nodes_without_a_leader_or_listener_request_nothing() -> None:
    assert due(follower(level=0), auto_join=True) is None
    assert due(follower(), auto_join=True, listeners=()) is None
    lost = follower()
    lost.peer_lost(0, 1)
    assert due(lost, auto_join=True) is None


@pytest.mark.parametrize(("features", "versions"), [([], (0, 0)), ([("kraft.version", 0, 2)], (0, 2))])
def test_a_node_without_the_feature_supports_static_voters_only(
    features: list[tuple[str, int, int]], versions: tuple[int, int]
) -> None:
    known = [SupportedFeatureKey(name="metadata.version", min_version=7, max_version=29)]
    known += [
        SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, low, high in features
    ]
    assert kraft_versions(ApiVersionsResponse(supported_features=known)) == versions

"""Requests about the quorum to three nodes, and requests to their controller listeners.

The active controller differs between two clusters: its listener and that of another controller are labels of the
responses, and fields that name the leader are replaced.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from ottla.wire.messages import update_raft_voter
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from ottla.wire.schema import Message
from tests.compat.differential.cluster import hide_progress
from tests.compat.differential.three_nodes import ClusterPlayer, NodePlayer
from tests.support.raw import Address

NEW_VOTER, OTHER = 9, uuid.UUID(int=7)
INVALID: dict[str, dict[str, Any]] = {
    "another cluster": {"cluster_id": "another"},
    "no cluster": {"cluster_id": None},
    "a voter": {"voter_id": 1},
    "no id": {"voter_id": -1},
    "a negative id": {"voter_id": -7},
    "no directory": {"voter_directory_id": uuid.UUID(int=0)},
}
LISTENERS: dict[str, dict[str, Any]] = {
    "no listener": {"listeners": []},
    "another listener": {"listeners": [Listener(name="X", host="h", port=1)]},
}


class ControllerPlayer(NodePlayer):
    """A controller listener."""

    def plain(self, value: Any, of: Message | None = None, name: str = "") -> Any:
        if name == "port" and type(of).__name__ == "CurrentLeader":
            return "port of a controller" if value in self.ports else value
        if name in ("leader_id", "leader_epoch") and value >= 0:
            return "some"
        return super().plain(value, of, name)


Listening = TypeVar("Listening", bound=ControllerPlayer)


def play(player: ClusterPlayer) -> None:
    """All steps. The quorum is the same before and after them."""
    quorum(player)
    active = player.cluster.controller()
    assert active is not None
    listeners = controllers(player, active, ControllerPlayer)
    for label, one in listeners.items():
        versions(one, label)
        one.ask(f"controllers, {label}", DescribeClusterRequest(endpoint_type=2), 1)
        one.ask(f"brokers, {label}", DescribeClusterRequest(endpoint_type=1), 1)
    cluster_id = player.nodes[0].quietly(MetadataRequest(topics=[]), 12).cluster_id
    targets: dict[str, NodePlayer] = {f"node {node}": player.nodes[node] for node in player.running}
    for label, one in {**targets, **listeners}.items():
        additions(one, label, cluster_id)
        removals(one, label, cluster_id)
    update_errors(listeners, cluster_id, (active + 1) % len(player.nodes))
    for one in listeners.values():
        one.reconnect()
    quorum(player)


def controllers(player: ClusterPlayer, active: int, kind: type[Listening]) -> dict[str, Listening]:
    """The listener of the active controller, and of another one."""
    voters = list(player.cluster.voters)
    addresses = {node: Address.parse(player.cluster.controller_address(node)) for node in voters}
    ports = {address.port: f"controller port of {node}" for node, address in addresses.items()}
    found: dict[str, Listening] = {}
    for label, node in {
        "active controller": active,
        "another controller": (active + 1) % len(voters),
    }.items():
        one = kind(addresses[node], "three", 0, player.asked, player.names)
        one.ports = player.ports | ports
        found[label] = one
    return found


def versions(one: NodePlayer, label: str) -> None:
    answer = one.quietly(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    plain = one.plain(answer)
    plain["api_keys"] = {str(row["api_key"]): row for row in plain["api_keys"]}
    one.keep(f"versions, {label}", plain)


def quorum(player: ClusterPlayer) -> None:
    """DescribeQuorum at every node. Offsets and the leader are each cluster's own."""
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    ports = {
        Address.parse(player.cluster.controller_address(node)).port: node for node in player.cluster.voters
    }
    for node in player.running:
        one = player.nodes[node]
        for version in DescribeQuorumRequest.SPEC.versions:
            answer = one.quietly(DescribeQuorumRequest(topics=[asked]), version)
            (partition,) = answer.topics[0].partitions
            hide_progress(partition)
            partition.leader_id = min(partition.leader_id, 0)
            partition.current_voters.sort(key=lambda each: each.replica_id)
            for each in answer.nodes:
                for at in each.listeners:
                    at.port = ports[at.port]
            one.keep(f"quorum, v{version}, node {node}", one.plain(answer))


def additions(one: NodePlayer, label: str, cluster_id: str) -> None:
    usual: dict[str, Any] = {
        "cluster_id": cluster_id,
        "timeout_ms": 3_000,
        "voter_id": NEW_VOTER,
        "voter_directory_id": OTHER,
        "listeners": [Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
    }
    for title, changes in {"new": {}, **INVALID, **LISTENERS}.items():
        for version in AddRaftVoterRequest.SPEC.versions:
            one.ask(f"add {title}, v{version}, {label}", AddRaftVoterRequest(**usual | changes), version)


def removals(one: NodePlayer, label: str, cluster_id: str) -> None:
    usual: dict[str, Any] = {
        "cluster_id": cluster_id,
        "voter_id": NEW_VOTER,
        "voter_directory_id": OTHER,
    }
    for title, changes in {"unknown": {}, **INVALID}.items():
        one.ask(f"remove {title}, {label}", RemoveRaftVoterRequest(**usual | changes), 0)


def feature(low: int, high: int) -> KRaftVersionFeature:
    return KRaftVersionFeature(min_supported_version=low, max_supported_version=high)


def update_errors(listeners: Mapping[str, NodePlayer], cluster_id: str, voter_id: int) -> None:
    """Updates that change nothing. An update of the leader ends a node of Apache Kafka 4.3.1."""
    described: Any = listeners["active controller"].quietly(
        DescribeQuorumRequest(
            topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
        ),
        2,
    )
    epoch = described.topics[0].partitions[0].leader_epoch
    at = update_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=1)
    usual: dict[str, Any] = {
        "cluster_id": cluster_id,
        "current_leader_epoch": epoch,
        "voter_id": voter_id,
        "voter_directory_id": OTHER,
        "listeners": [at],
        "kraft_version_feature": KRaftVersionFeature(max_supported_version=1),
    }
    invalid: dict[str, dict[str, Any]] = {
        "another cluster": {"cluster_id": "another"},
        "an earlier epoch": {"current_leader_epoch": epoch - 1},
        "a later epoch": {"current_leader_epoch": epoch + 1},
        "no id": {"voter_id": -1},
        "an unknown voter": {"voter_id": NEW_VOTER},
        "no directory": {"voter_directory_id": uuid.UUID(int=0)},
        "no listener": {"listeners": []},
        "a range without 0": {"kraft_version_feature": feature(1, 1)},
        "a range that is reversed": {"kraft_version_feature": feature(1, 0)},
        "a range that is negative": {"kraft_version_feature": feature(-1, 1)},
    }
    for label, one in listeners.items():
        for title, changes in invalid.items():
            one.ask(f"update {title}, {label}", UpdateRaftVoterRequest(**usual | changes), 0)

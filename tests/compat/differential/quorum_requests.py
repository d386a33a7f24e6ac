"""Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot: requests of the replicas of a quorum.

All of them leave the quorum as it is. Epochs, offsets and records are each cluster's own and are not compared.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping
from typing import Any

from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Message
from tests.compat.differential.controllers import ControllerPlayer, controllers
from tests.compat.differential.three_nodes import ClusterPlayer

STRANGER, OTHER_DIRECTORY = 9, uuid.UUID(int=7)
FAR = 1 << 40
OWN = ("high_watermark", "log_start_offset", "end_offset")

Changes = Mapping[str, Any]


class ReplicaPlayer(ControllerPlayer):
    """A controller listener, for requests of other replicas of the quorum."""

    def plain(self, value: Any, of: Message | None = None, name: str = "") -> Any:
        if name == "records" and value:
            return "records"
        if name in OWN or (name == "epoch" and type(of).__name__ == "EpochEndOffset"):
            return min(value, 0)
        if name in ("node_id", "port") and type(of).__name__ == "NodeEndpoint":
            return f"{name} of the leader"
        return super().plain(value, of, name)


def play(player: ClusterPlayer) -> None:
    active = player.cluster.controller()
    assert active is not None
    listeners = controllers(player, active, ReplicaPlayer)
    ids = dict(zip(listeners, (active, (active + 1) % len(player.nodes)), strict=True))
    epoch = _describe(listeners["active controller"]).leader_epoch
    cluster_id = player.nodes[0].quietly(MetadataRequest(topics=[]), 12).cluster_id
    for label, one in listeners.items():
        votes(one, label, cluster_id, epoch, ids[label])
        beginnings(one, label, cluster_id, epoch, active, ids[label])
        endings(one, label, cluster_id, epoch)
        fetches(one, label, cluster_id, epoch)
        snapshots(one, label, cluster_id, epoch)
    after = _describe(listeners["active controller"])
    listeners["active controller"].keep("the epoch is the same", after.leader_epoch == epoch)
    observers = sorted(each.replica_id for each in after.observers)
    listeners["active controller"].keep("observers", observers)
    for one in listeners.values():
        one.reconnect()


def _describe(one: ReplicaPlayer) -> Any:
    asked = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    return one.quietly(DescribeQuorumRequest(topics=[asked]), 2).topics[0].partitions[0]


def _changed(request: Any, changes: Changes) -> Any:
    """A copy of a request; names with a dot are fields of its partition."""
    changed = copy.deepcopy(request)
    for name, value in changes.items():
        setattr(changed.topics[0].partitions[0] if name.startswith(".") else changed, name.lstrip("."), value)
    return changed


def _ask(one: ReplicaPlayer, label: str, request: Any, cases: Mapping[str, Changes], since: int = 0) -> None:
    for title, changes in cases.items():
        for version in request.SPEC.versions:
            if version >= since:
                one.ask(f"{title}, v{version}, {label}", _changed(request, changes), version)


def _forms(request: Any, name: str) -> dict[str, Changes]:
    """Requests for another cluster, and for other partitions than the only one."""
    topic = request.topics[0]
    partition = topic.partitions[0]
    field = "partition" if hasattr(partition, "partition") else "partition_index"
    second = copy.deepcopy(partition)
    setattr(second, field, 1)
    other = copy.deepcopy(topic)
    setattr(other, name, "nowhere")
    return {
        "another cluster": {"cluster_id": "another"},
        "no cluster": {"cluster_id": None},
        "another topic": {"topics": [other]},
        "another partition": {f".{field}": 1},
        "two partitions": {
            "topics": [type(topic)(**{name: METADATA_TOPIC, "partitions": [partition, second]})]
        },
    }


def votes(one: ReplicaPlayer, label: str, cluster_id: str, epoch: int, node: int) -> None:
    partition = vote.PartitionData(
        replica_epoch=epoch, replica_id=STRANGER, last_offset_epoch=epoch - 1, last_offset=0
    )
    request = vote.VoteRequest(
        cluster_id=cluster_id,
        voter_id=node,
        topics=[vote.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )
    cases: dict[str, Changes] = {
        "vote": {},
        "vote, nothing": {"topics": []},
        "vote, no candidate": {".replica_id": -1},
        "vote, negative offset": {".last_offset": -1},
        "vote, negative epoch of the log": {".last_offset_epoch": -1},
        "vote, a log of the epoch": {".last_offset_epoch": epoch},
        "vote, no voter": {"voter_id": -1},
        "vote, another voter": {"voter_id": STRANGER},
        "vote, another directory": {".voter_directory_id": OTHER_DIRECTORY},
        **{f"vote, {title}": each for title, each in _forms(request, "topic_name").items()},
    }
    _ask(one, label, request, cases)
    early = {".pre_vote": True, ".last_offset_epoch": 0, ".replica_epoch": 0}
    pre: dict[str, Changes] = {
        "pre-vote": {".pre_vote": True, ".last_offset_epoch": epoch, ".last_offset": FAR},
        "pre-vote, a log of a later epoch": {".pre_vote": True, ".last_offset_epoch": epoch + 1},
        "pre-vote of an earlier epoch": early,
        "pre-vote of an earlier epoch, no candidate": early | {".replica_id": -1},
        "pre-vote of an earlier epoch, another voter": early | {"voter_id": STRANGER},
    }
    _ask(one, label, request, pre, since=2)


def beginnings(one: ReplicaPlayer, label: str, cluster_id: str, epoch: int, leader: int, node: int) -> None:
    partition = begin_quorum_epoch.PartitionData(leader_id=leader, leader_epoch=epoch)
    request = begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=node,
        topics=[begin_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )
    cases: dict[str, Changes] = {
        "begin": {},
        "begin, nothing": {"topics": []},
        "begin, no leader": {".leader_id": -1},
        "begin, an earlier epoch": {".leader_epoch": epoch - 1},
        "begin, an earlier epoch, no leader": {".leader_epoch": epoch - 1, ".leader_id": -1},
        "begin, no voter": {"voter_id": -1},
        "begin, another voter": {"voter_id": STRANGER},
        "begin, another directory": {".voter_directory_id": OTHER_DIRECTORY},
        **{f"begin, {title}": each for title, each in _forms(request, "topic_name").items()},
    }
    _ask(one, label, request, cases)


def endings(one: ReplicaPlayer, label: str, cluster_id: str, epoch: int) -> None:
    partition = end_quorum_epoch.PartitionData(leader_id=STRANGER, leader_epoch=epoch - 1)
    request = end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )
    cases: dict[str, Changes] = {
        "end, an earlier epoch": {},
        "end, nothing": {"topics": []},
        "end, no leader": {".leader_epoch": epoch, ".leader_id": -1},
        "end, an earlier epoch, no leader": {".leader_id": -1},
        **{f"end, {title}": each for title, each in _forms(request, "topic_name").items()},
    }
    _ask(one, label, request, cases)


def fetches(one: ReplicaPlayer, label: str, cluster_id: str, epoch: int) -> None:
    """As a consumer, which is no replica, so that the leader learns nothing from it."""
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=1 << 20
    )
    request = fetch.FetchRequest(
        cluster_id=cluster_id,
        topics=[fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )
    forms = _forms(request, "topic")
    forms["another topic"] = {
        "topics": [fetch.FetchTopic(topic="nowhere", topic_id=OTHER_DIRECTORY, partitions=[partition])]
    }
    two = [partition, fetch.FetchPartition(partition=1, current_leader_epoch=epoch, last_fetched_epoch=0)]
    forms["two partitions"] = {
        "topics": [fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=two)]
    }
    cases: dict[str, Changes] = {
        "fetch": {},
        "fetch, nothing": {"topics": []},
        "fetch, an earlier epoch": {".current_leader_epoch": epoch - 1},
        "fetch, a later epoch": {".current_leader_epoch": epoch + 1},
        "fetch, negative offset": {".fetch_offset": -1},
        "fetch, negative epoch of the log": {".last_fetched_epoch": -1},
        "fetch, a later epoch of the log": {".last_fetched_epoch": epoch + 1},
        "fetch, negative wait": {"max_wait_ms": -1},
        "fetch, beyond the end": {".fetch_offset": FAR, ".last_fetched_epoch": epoch},
        **{f"fetch, {title}": each for title, each in forms.items()},
    }
    _ask(one, label, request, cases, since=12)


def snapshots(one: ReplicaPlayer, label: str, cluster_id: str, epoch: int) -> None:
    partition = fetch_snapshot.PartitionSnapshot(
        current_leader_epoch=epoch, snapshot_id=fetch_snapshot.SnapshotId(end_offset=FAR, epoch=epoch)
    )
    request = fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        topics=[fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )
    cases: dict[str, Changes] = {
        "snapshot": {},
        "snapshot, an earlier epoch": {".current_leader_epoch": epoch - 1},
        "snapshot, a later epoch": {".current_leader_epoch": epoch + 1},
        "snapshot, negative position": {".position": -1},
        "snapshot, the first one": {".snapshot_id": fetch_snapshot.SnapshotId()},
        **{f"snapshot, {title}": each for title, each in _forms(request, "name").items()},
    }
    _ask(one, label, request, cases)

"""Requests to three nodes: the same steps on a cluster of Apache Kafka and on one of Ottla, with nodes up and down.

A step sends requests to every running node and keeps the responses. The ports of the nodes are replaced by the node
ids. The active controller differs between the clusters, so fields that name it are replaced too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.local.cluster import LocalCluster
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_producers import DescribeProducersRequest
from ottla.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.schema import Message
from tests.compat.differential.fetching import fetch, want
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, produce, record
from tests.support.raw import CLOSED, Address
from tests.support.waiting import wait_until

TOPIC, PAIR = "all", "pair"
ASSIGNMENT = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]}
PAIR_ASSIGNMENT = {0: [0, 1], 1: [1, 2]}
BROKER, TOPIC_RESOURCE = 4, 2


class NodePlayer(Player):
    """One node of a cluster; ports are compared as node ids."""

    ports: dict[int, str]
    """Names of the ports of all nodes, by which they are compared."""

    def plain(self, value: Any, of: Message | None = None, name: str = "") -> Any:
        if name == "port" and value in self.ports:
            return self.ports[value]
        if name == "controller_id" and value >= 0:
            return "a node"
        if name == "throttle_time_ms":
            return 0
        return super().plain(value, of, name)

    def _plain_batch(self, data: bytes) -> Any:
        plain = super()._plain_batch(data)
        if isinstance(plain, dict) and plain["max"] == "now":  # a marker, which the broker has written
            plain["base_timestamp"] = "now"
        return plain


class ClusterPlayer:
    """A cluster as one run of the steps sees it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.asked: list[tuple[str, Any]] = []
        self.names: dict[Any, str] = {}
        self.nodes: dict[int, NodePlayer] = {}
        ports = {Address.parse(cluster.address(node)).port: f"port of {node}" for node in cluster.brokers}
        for node in cluster.brokers:
            player = NodePlayer(Address.parse(cluster.address(node)), "three", 0, self.asked, self.names)
            player.ports = ports
            player.timeout_s = 40.0
            self.nodes[node] = player
        self.ports = ports

    @property
    def running(self) -> list[int]:
        return self.cluster.running

    def ask(self, label: str, request: Message, version: int, nodes: Iterable[int] | None = None) -> None:
        for node in self.running if nodes is None else nodes:
            self.nodes[node].ask(f"{label}, v{version}, node {node}", request, version)

    def ask_versions(
        self, label: str, request: Message, nodes: Iterable[int] | None = None, since: int = 0
    ) -> None:
        """Send a request in each version to each running node."""
        targets = self.running if nodes is None else list(nodes)
        for version in request.SPEC.versions:
            if version >= since:
                self.ask(label, request, version, targets)

    def reconnect(self) -> None:
        for player in self.nodes.values():
            player.reconnect()

    def restart(self, node: int) -> None:
        self.nodes[node].reconnect()
        self.cluster.restart(node)

    def stop(self, node: int) -> None:
        self.cluster.stop(node)
        self.nodes[node].reconnect()

    def kill(self, node: int) -> None:
        self.cluster.kill(node)
        self.nodes[node].reconnect()

    # --- state

    def partitions(self, topic: str, node: int) -> dict[int, Any]:
        answer = self.nodes[node].quietly(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), 12
        )
        if answer is CLOSED or isinstance(answer, str):
            return {}
        return {one.partition_index: one for one in answer.topics[0].partitions}

    def applied_offset(self, node: int) -> int:
        """The offset of the metadata that a node has applied; -1 if it does not respond."""
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        answer = self.nodes[node].quietly(request, 4)
        if answer is CLOSED or isinstance(answer, str):
            return -1
        offset: int = answer.finalized_features_epoch
        return offset

    def committed_offset(self) -> int | None:
        """The last committed offset of the metadata; None without an active controller."""
        asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        answer = self.nodes[self.running[0]].quietly(DescribeQuorumRequest(topics=[asked]), 2)
        if answer is CLOSED or isinstance(answer, str) or answer.error_code:
            return None
        (partition,) = answer.topics[0].partitions
        return None if partition.error_code else partition.high_watermark - 1

    def until_applied(self) -> None:
        """Wait until every running node has applied all committed metadata.

        The response to a change only says that it is committed: other nodes may apply it later, in Apache Kafka even
        the node that sent the response.
        """

        def reached() -> bool:
            committed = self.committed_offset()
            return committed is not None and all(
                self.applied_offset(node) >= committed for node in self.running
            )

        wait_until(reached, "every node to apply the committed metadata", 60)

    def until_isr(self, topic: str, expected: dict[int, set[int]]) -> None:
        """Wait until every running node reports these in-sync replicas."""

        def reached() -> bool:
            return all(
                {index: set(one.isr_nodes) for index, one in self.partitions(topic, node).items()} == expected
                for node in self.running
            )

        wait_until(reached, f"the ISR of {topic} to be {expected}", 60)

    def until_replicas(self, topic: str, index: int, expected: list[int]) -> None:
        wait_until(
            lambda: all(
                self.partitions(topic, node)[index].replica_nodes == expected for node in self.running
            ),
            f"the replicas of {topic}-{index} to be {expected}",
            60,
        )

    def until_copied(self, topic: str, index: int) -> None:
        """Wait until all running replicas have the same high watermark."""

        def watermarks() -> set[int]:
            found = set()
            for node in set(self.partitions(topic, self.running[0])[index].replica_nodes) & {*self.running}:
                one = self.nodes[node]
                answer = one.quietly(fetch(one, want(topic, index, 0)), 12)
                found.add(answer.responses[0].partitions[0].high_watermark)
            return found

        wait_until(lambda: len(watermarks()) <= 1, f"the replicas of {topic}-{index} to be equal", 60)

    def until_leaders(self, topic: str, expected: dict[int, int]) -> None:
        def reached() -> bool:
            return all(
                {index: one.leader_id for index, one in self.partitions(topic, node).items()} == expected
                for node in self.running
            )

        wait_until(reached, f"the leaders of {topic} to be {expected}", 60)


def create(player: ClusterPlayer, topic: str, assignment: dict[int, list[int]], node: int) -> None:
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in assignment.items()
        ],
    )
    answer = player.nodes[node].quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
    assert answer.topics[0].error_code == 0, answer
    player.names[answer.topics[0].topic_id] = topic
    player.until_isr(topic, {index: set(replicas) for index, replicas in assignment.items()})
    player.until_leaders(topic, {index: replicas[0] for index, replicas in assignment.items()})


def metadata(player: ClusterPlayer, label: str) -> None:
    """What every node reports of brokers, topics and partitions."""
    names = [TOPIC, PAIR, "nowhere"]
    for version in MetadataRequest.SPEC.versions:
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        if version >= 4:
            player.ask(f"{label}: metadata", asked, version)
    described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
    player.ask_versions(f"{label}: topic partitions", described)
    player.ask_versions(f"{label}: cluster", DescribeClusterRequest(), since=0)
    player.ask(f"{label}: cluster with fenced", DescribeClusterRequest(include_fenced_brokers=True), 2)
    player.ask(f"{label}: controllers", DescribeClusterRequest(endpoint_type=2), 1)


def records(player: ClusterPlayer, label: str, versions: Iterable[int] = (3, 9, 10, 12)) -> None:
    """Produce to every node, of which one leads."""
    for version in versions:
        for acks in (1, -1):
            for topic, index in ((TOPIC, 0), (PAIR, 0), (PAIR, 1)):
                for node in player.running:
                    one = player.nodes[node]
                    request = produce(one, (topic, index, batch(record(b"x"))), acks=acks)
                    request.timeout_ms = 1_500
                    one.ask(
                        f"{label}: produce acks={acks} {topic}-{index} v{version} node {node}",
                        request,
                        version,
                    )
    player.ask(f"{label}: produce by id", produce(player.nodes[0], (TOPIC, 0, batch())), 13)


def reads(player: ClusterPlayer, label: str) -> None:
    """Fetch, ListOffsets, OffsetForLeaderEpoch and DescribeProducers at every node."""
    for topic, index in ((TOPIC, 0), (PAIR, 0), (PAIR, 1)):
        player.until_copied(topic, index)
    for node in player.running:
        one = player.nodes[node]
        for topic, index in ((TOPIC, 0), (PAIR, 0), (PAIR, 1)):
            where = f"{label}: {topic}-{index} node {node}"
            for version in (4, 10, 11, 12, 13, 15, 16, 17):
                for offset in (0, 3, 1 << 30):
                    request = fetch(one, want(topic, index, offset))
                    request.max_wait_ms = 300
                    one.ask(f"{where}: fetch from {offset} v{version}", _only(request, version), version)
            for epoch in (0, 1, 99):
                asked = fetch(one, want(topic, index, 0, current_leader_epoch=epoch))
                one.ask(f"{where}: fetch in epoch {epoch}", asked, 12)
            for version, replica, at in ((5, -1, -1), (5, -1, -2), (7, -1, -3), (5, -2, -1), (2, -1, 0)):
                listed = ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=at)]
                )
                one.ask(
                    f"{where}: offsets {at} replica {replica}",
                    ListOffsetsRequest(replica_id=replica, topics=[listed]),
                    version,
                )
            for epoch in (-1, 0, 1, 99):
                wanted = OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
                asked_epoch = OffsetForLeaderEpochRequest(
                    replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
                )
                for version in (2, 3, 4):
                    one.ask(f"{where}: end of epoch {epoch} v{version}", asked_epoch, version)
            producers = ProducersOfTopic(name=topic, partition_indexes=[index])
            one.ask(f"{where}: producers", DescribeProducersRequest(topics=[producers]), 0)


def _only(request: FetchRequest, version: int) -> FetchRequest:
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=-1, replica_epoch=-1)
    return request


def administration(player: ClusterPlayer, label: str) -> None:
    """Requests that the active controller handles, sent to every node."""
    for node in player.running:
        _administration(player.nodes[node], node, label)
        configurations(player, node, label)


def _administration(one: NodePlayer, node: int, label: str) -> None:
    def create_topic(name: str, *, version: int = 7, **fields: Any) -> None:
        fields.setdefault("num_partitions", 1)
        fields.setdefault("replication_factor", 1)
        topic = CreatableTopic(name=f"made-{name}-{one.address.port}", **fields)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)
        answer = one.quietly(request, version)
        for result in getattr(answer, "topics", ()):
            result.name = name
        one.keep(f"{label}: create {name}, node {node}", one.plain(answer))

    create_topic("plain")
    create_topic("three", replication_factor=3)
    create_topic("four", replication_factor=4)
    create_topic("default", num_partitions=-1, replication_factor=-1)
    for title, replicas in {
        "unknown": [0, 7],
        "twice": [0, 0],
        "none": [],
        "third": [2],
        "by hand": [2, 0],
    }.items():
        create_topic(
            title,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        )
    for title, count, assignments in (
        ("fewer", 1, None),
        ("same", 3, None),
        ("more", 5, None),
        ("by hand", 4, [[0, 1, 2]]),
        ("wrong count", 5, [[0, 1, 2]]),
        ("wrong factor", 4, [[0, 1]]),
        ("unknown broker", 4, [[0, 1, 9]]),
    ):
        given = None
        if assignments is not None:
            given = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        grown = CreatePartitionsTopic(name=TOPIC, count=count, assignments=given)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=True)
        one.ask(f"{label}: grow {title}, node {node}", request, 3)
    for kind in (0, 1, 7):
        topics = [
            TopicPartitions(topic=TOPIC, partitions=[0, 1, 9]),
            TopicPartitions(topic="nowhere", partitions=[0]),
        ]
        asked = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=5_000)
        for version in (1, 2):
            one.ask(f"{label}: elect {kind} v{version}, node {node}", asked, version)
    one.ask(f"{label}: elect by v0, node {node}", ElectLeadersRequest(topic_partitions=topics), 0)
    every = ListPartitionReassignmentsRequest(topics=None)
    one.ask(f"{label}: reassignments, node {node}", every, 0)
    some = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in (TOPIC, "nowhere")
    ]
    one.ask(f"{label}: some reassignments, node {node}", ListPartitionReassignmentsRequest(topics=some), 0)
    one.ask(f"{label}: unregister, node {node}", UnregisterBrokerRequest(broker_id=77), 0)
    reassign(one, f"{label}: node {node}", 9, [0, 1])
    reassign(one, f"{label}: node {node}", 0, [])
    reassign(one, f"{label}: node {node}", 0, [0, 0])
    reassign(one, f"{label}: node {node}", 0, [0, 8])
    reassign(one, f"{label}: node {node}", 0, [-1])
    reassign(one, f"{label}: node {node}", 0, None)
    gone = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
    one.ask(f"{label}: delete records, node {node}", DeleteRecordsRequest(topics=[gone], timeout_ms=2_000), 2)


def reassign(one: Player, label: str, index: int, replicas: list[int] | None, topic: str = TOPIC) -> None:
    wanted = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[wanted])], timeout_ms=10_000
    )
    one.ask(f"{label}: reassign {index} to {replicas}", request, 0)


def configurations(player: ClusterPlayer, node: int, label: str) -> None:
    one = player.nodes[node]
    for resource in ("", "0", "1", "2", "9"):
        described = DescribeConfigsResource(
            resource_type=BROKER, resource_name=resource, configuration_keys=["log.cleaner.threads"]
        )
        one.ask(
            f"{label}: configuration of {resource!r}, node {node}",
            DescribeConfigsRequest(resources=[described]),
            4,
        )
        change = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="1")
        altered = AlterConfigsResource(resource_type=BROKER, resource_name=resource, configs=[change])
        one.ask(
            f"{label}: alter {resource!r}, node {node}",
            IncrementalAlterConfigsRequest(resources=[altered], validate_only=True),
            1,
        )
    topic = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configuration_keys=["min.insync.replicas"]
    )
    one.ask(f"{label}: of a topic, node {node}", DescribeConfigsRequest(resources=[topic]), 4)


def versions(player: ClusterPlayer) -> None:
    for node in player.running:
        one = player.nodes[node]
        answer = one.quietly(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
        plain = one.plain(answer)
        plain["api_keys"] = {str(row["api_key"]): row for row in plain["api_keys"]}
        one.keep(f"versions, node {node}", plain)


def reassignments(player: ClusterPlayer) -> None:
    """A reassignment that completes, one of order only, and one back."""
    one = player.nodes[1]
    listed = ListPartitionReassignmentsRequest(topics=None)
    for replicas in ([1, 0], [2, 1], [2, 1], [0, 1]):
        reassign(one, "moving", 0, replicas, PAIR)
        player.until_isr(PAIR, {0: set(replicas), 1: {1, 2}})
        wait_until(lambda: not one.quietly(listed, 0).topics, "the reassignment to end", 60)
        player.until_replicas(PAIR, 0, replicas)
        one.ask(f"moved to {replicas}: reassignments", listed, 0)
        player.ask(
            f"moved to {replicas}: partitions",
            DescribeTopicPartitionsRequest(topics=[TopicRequest(name=PAIR)]),
            0,
        )
    preferred = ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions(topic=PAIR, partitions=[0, 1])], timeout_ms=5_000
    )
    one.ask("preferred", preferred, 2)
    player.until_leaders(PAIR, {0: 0, 1: 1})


def play(player: ClusterPlayer) -> None:
    """All steps, in order. Nodes are killed and restarted."""
    create(player, TOPIC, ASSIGNMENT, 1)
    create(player, PAIR, PAIR_ASSIGNMENT, 2)
    versions(player)
    metadata(player, "up")
    records(player, "up")
    reads(player, "up")
    administration(player, "up")
    reassignments(player)
    player.kill(2)
    player.until_isr(TOPIC, {0: {0, 1}, 1: {1, 0}, 2: {0, 1}})
    player.until_isr(PAIR, {0: {0, 1}, 1: {1}})
    metadata(player, "one down")
    records(player, "one down", (9,))
    reads(player, "one down")
    administration(player, "one down")
    player.restart(2)
    player.until_isr(TOPIC, {0: {0, 1, 2}, 1: {0, 1, 2}, 2: {0, 1, 2}})
    player.until_isr(PAIR, {0: {0, 1}, 1: {1, 2}})
    preferred = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
    player.nodes[0].quietly(preferred, 2)
    player.until_leaders(TOPIC, {0: 0, 1: 1, 2: 2})
    metadata(player, "back")
    reads(player, "back")
    stops(player)


def stops(player: ClusterPlayer) -> None:
    """One node stops cleanly, another is killed: no quorum is left, the last node serves what it leads."""
    player.stop(2)
    player.until_isr(TOPIC, {0: {0, 1}, 1: {0, 1}, 2: {0, 1}})
    player.until_isr(PAIR, {0: {0, 1}, 1: {1}})
    metadata(player, "one stopped")
    records(player, "one stopped", (9,))
    reads(player, "one stopped")
    player.kill(1)
    metadata(player, "no quorum")
    records(player, "no quorum", (9,))
    reads(player, "no quorum")
    for node in (1, 2):
        player.restart(node)
    player.until_isr(TOPIC, {0: {0, 1, 2}, 1: {0, 1, 2}, 2: {0, 1, 2}})

"""Five nodes of which two are down, so that partitions lose all their in-sync replicas while a quorum remains."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.compat.differential.changes import reassign
from tests.compat.differential.fetching import fetch, want
from tests.compat.differential.records import batch, produce, record
from tests.compat.differential.three_nodes import ClusterPlayer, NodePlayer
from tests.support.waiting import wait_until

SAFE, UNSAFE, WIDE, SINGLE = "safe5", "unsafe5", "wide5", "single5"
TOPICS: dict[str, dict[int, list[int]]] = {
    SAFE: {0: [3, 4], 1: [4, 3]},
    UNSAFE: {0: [3, 4], 1: [4, 3]},
    WIDE: {0: [3, 4, 0], 1: [4, 3, 1]},
    SINGLE: {0: [3], 1: [4]},
}
SETTINGS = {UNSAFE: {"unclean.leader.election.enable": "true"}}


def create_all(player: ClusterPlayer) -> None:
    for name, assignment in TOPICS.items():
        wanted = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in assignment.items()
            ],
            configs=[
                CreatableTopicConfig(name=key, value=value) for key, value in SETTINGS.get(name, {}).items()
            ],
        )
        answer = player.nodes[0].quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
        assert answer.topics[0].error_code == 0, answer
        player.names[answer.topics[0].topic_id] = name
        player.until_isr(name, {index: set(replicas) for index, replicas in assignment.items()})


def state(player: ClusterPlayer, label: str) -> None:
    """What every node says about the topics and the brokers, after all earlier changes."""
    player.until_applied()
    for node in player.running:
        one = player.nodes[node]
        described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in TOPICS])
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in TOPICS], allow_auto_topic_creation=False
        )
        for title, request, version in (("partitions", described, 0), ("metadata", asked, 13)):
            answer = one.quietly(request, version)
            for topic in answer.topics:
                for partition in topic.partitions:
                    partition.leader_epoch = min(partition.leader_epoch, 0)
                    partition.isr_nodes.sort()
                    for unordered in ("eligible_leader_replicas", "last_known_elr"):
                        if getattr(partition, unordered, None):
                            getattr(partition, unordered).sort()
            one.keep(f"{label}: {title} at {node}", one.plain(answer))
        one.ask(f"{label}: cluster at {node}", DescribeClusterRequest(include_fenced_brokers=True), 2)


def write(player: ClusterPlayer, label: str, acks: int) -> None:
    for topic, assignment in TOPICS.items():
        for index in assignment:
            for node in player.running:
                one = player.nodes[node]
                request = produce(one, (topic, index, batch(record(label.encode()))), acks=acks)
                request.timeout_ms = 1_500
                one.ask(f"{label}: produce acks={acks} {topic}-{index} at {node}", request, 9)


def read(player: ClusterPlayer, label: str, *topics: str) -> None:
    for topic in topics or TOPICS:
        for index in TOPICS[topic]:
            for node in player.running:
                one = player.nodes[node]
                answer = one.quietly(fetch(one, want(topic, index, 0)), 12)
                one.keep(f"{label}: fetch {topic}-{index} at {node}", contents(one, answer))


def contents(one: NodePlayer, answer: Any) -> Any:
    """Error, high watermark and records without their epochs, which differ after unclean stops."""
    plain = one.plain(answer)
    for topic in plain["responses"]:
        for partition in topic["partitions"]:
            for each in (partition["records"] or {"batches": []})["batches"]:
                if isinstance(each, dict):
                    each["partition_leader_epoch"] = 0
    return plain


def elect(player: ClusterPlayer, label: str, *topics: str) -> None:
    for kind in (0, 1):
        wanted = [TopicPartitions(topic=name, partitions=list(TOPICS[name])) for name in topics or TOPICS]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=5_000)
        player.ask(f"{label}: elect {kind}", request, 2, [0])


def leaders(player: ClusterPlayer, topic: str, *expected: int) -> None:
    player.until_leaders(topic, dict(enumerate(expected)))


def play(player: ClusterPlayer) -> None:
    """All steps: nodes 4 and 3 are killed and return; then node 4 is killed, unregistered, and returns."""
    losses(player)
    unregistered(player)


def losses(player: ClusterPlayer) -> None:
    create_all(player)
    write(player, "up", -1)
    state(player, "up")
    player.kill(4)
    for topic in (SAFE, UNSAFE, WIDE):
        leaders(player, topic, 3, 3)
    leaders(player, SINGLE, 3, -1)
    wait_until(lambda: player.partitions(SAFE, 0)[0].isr_nodes == [3], "the ISR to shrink", 60)
    state(player, "4 down")
    elect(player, "4 down")
    write(player, "4 down", 1)
    write(player, "4 down", -1)
    for index in TOPICS[WIDE]:
        player.until_copied(WIDE, index)
    read(player, "4 down")
    player.kill(3)
    leaders(player, SAFE, -1, -1)
    leaders(player, UNSAFE, -1, -1)
    leaders(player, WIDE, 0, 1)
    leaders(player, SINGLE, -1, -1)
    state(player, "both down")
    write(player, "both down", -1)
    read(player, "both down")
    elect(player, "both down")
    state(player, "both down, elected")
    reassign(player, "to living nodes", (WIDE, 0, [0, 1]))
    player.until_isr(WIDE, {0: {0, 1}, 1: {1}})
    state(player, "both down, moved")
    reassign(player, "back to dead nodes", (WIDE, 0, [3, 4, 0]))
    player.until_replicas(WIDE, 0, [3, 4, 0, 1])
    state(player, "both down, moving back")
    player.restart(4)
    wait_until(lambda: player.partitions(UNSAFE, 0)[0].leader_id == 4, "an unclean leader", 60)
    player.until_isr(WIDE, {0: {0, 1, 4}, 1: {1, 4}})
    state(player, "4 back")
    write(player, "4 back", 1)
    # The high watermark of a replica that returns, and has no leader, depends on the time of its last checkpoint.
    read(player, "4 back", UNSAFE, WIDE, SINGLE)
    elect(player, "4 back, safe", SAFE, WIDE)
    leaders(player, SAFE, 4, 4)
    state(player, "4 back, elected")
    player.restart(3)
    for topic in (SAFE, UNSAFE, WIDE):
        player.until_isr(topic, {index: set(replicas) for index, replicas in TOPICS[topic].items()})
    leaders(player, SINGLE, 3, 4)
    state(player, "all back")
    for topic, assignment in TOPICS.items():
        for index in assignment:
            player.until_copied(topic, index)
    read(player, "all back")
    elect(player, "all back")
    for topic in TOPICS:
        leaders(player, topic, 3, 4)
    state(player, "balanced")


def unregistered(player: ClusterPlayer) -> None:
    """A dead broker is unregistered and returns."""
    player.kill(4)
    leaders(player, SAFE, 3, 3)
    player.ask("unregister 4", UnregisterBrokerRequest(broker_id=4), 0, [0])
    described = DescribeClusterRequest(include_fenced_brokers=True)

    def gone() -> bool:
        answers = [player.nodes[node].quietly(described, 2) for node in player.running]
        return all(4 not in {each.broker_id for each in answer.brokers} for answer in answers)

    wait_until(gone, "broker 4 to be unregistered", 60)
    state(player, "unregistered")
    player.ask("unregister 4 again", UnregisterBrokerRequest(broker_id=4), 0, [1])
    reassign(player, "to an unregistered broker", (SAFE, 0, [3, 4]))
    reassign(player, "to an unregistered broker, wide", (SAFE, 0, [3, 4, 0]))
    elect(player, "unregistered")
    player.restart(4)
    for topic in (SAFE, UNSAFE, WIDE):
        player.until_isr(topic, {index: set(replicas) for index, replicas in TOPICS[topic].items()})
    state(player, "registered again")

"""Changes of partitions and brokers of three nodes: elections, reassignments, ISR sizes, unregistration."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.compat.differential.records import batch, produce
from tests.compat.differential.three_nodes import TOPIC_RESOURCE, ClusterPlayer, create

SAFE, UNSAFE, STRICT, LAST = "safe", "unsafe", "strict", "last"
TOPICS = {
    SAFE: {0: [0, 1], 1: [1, 2], 2: [2, 0]},
    UNSAFE: {0: [1, 2], 1: [2, 1]},
    STRICT: {0: [0, 1, 2], 1: [2, 1, 0]},
    LAST: {0: [2], 1: [1]},
}


def configure(player: ClusterPlayer, label: str, topic: str, node: int = 0, **values: str | None) -> None:
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=1 if value is None else 0, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changes)
    player.ask(label, IncrementalAlterConfigsRequest(resources=[resource]), 1, [node])


def state(player: ClusterPlayer, label: str) -> None:
    """What every node says about the topics, after all earlier changes."""
    player.until_applied()
    described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in TOPICS])
    player.ask(f"{label}: partitions", described, 0)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
    asked.allow_auto_topic_creation = False
    for version in (4, 7, 13):
        player.ask(f"{label}: metadata", asked, version)
    for fenced in (False, True):
        player.ask(
            f"{label}: cluster, fenced {fenced}", DescribeClusterRequest(include_fenced_brokers=fenced), 2
        )


def settled(player: ClusterPlayer, topic: str, expected: dict[int, tuple[int, set[int]]]) -> None:
    """Wait until every running node reports these leaders and in-sync replicas."""
    player.until_leaders(topic, {index: leader for index, (leader, _) in expected.items()})
    player.until_isr(topic, {index: isr for index, (_, isr) in expected.items()})


def elections(player: ClusterPlayer, label: str) -> None:
    for node in player.running:
        for kind in (0, 1):
            for version in (1, 2):
                wanted = [
                    TopicPartitions(topic=topic, partitions=list(assignment))
                    for topic, assignment in TOPICS.items()
                    if kind == 0 or topic != UNSAFE
                ]
                request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=5_000)
                player.ask(f"{label}: elect {kind}", request, version, [node])


def reassign(
    player: ClusterPlayer,
    label: str,
    *wanted: tuple[str, int, list[int] | None],
    node: int = 0,
    **fields: Any,
) -> None:
    topics = [
        ReassignableTopic(
            name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        for topic, index, replicas in wanted
    ]
    version = 1 if "allow_replication_factor_change" in fields else 0
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000, **fields)
    player.ask(label, request, version, [node])


def odd_reassignments(player: ClusterPlayer, label: str) -> None:
    """Inputs that are refused, or change nothing."""
    for node in player.running:
        reassign(player, f"{label}: nothing", node=node)
        reassign(player, f"{label}: twice the same partition", (SAFE, 0, None), (SAFE, 0, None), node=node)
        reassign(player, f"{label}: one right, one wrong", (SAFE, 0, None), (SAFE, 1, [1, 9]), node=node)
        reassign(player, f"{label}: no name", ("", 0, [0]), node=node)
        reassign(player, f"{label}: negative index", (SAFE, -1, [0]), node=node)
        reassign(player, f"{label}: as it is", (SAFE, 0, [0, 1]), node=node)
        for change in (True, False):
            reassign(
                player,
                f"{label}: another factor, allowed {change}",
                (SAFE, 0, [0, 1, 9]),
                node=node,
                allow_replication_factor_change=change,
            )
        reassign(
            player,
            f"{label}: refused factor",
            (SAFE, 0, [0, 1, 2]),
            (SAFE, 1, [1]),
            node=node,
            allow_replication_factor_change=False,
        )
        reassign(
            player,
            f"{label}: the same factor",
            (SAFE, 0, [0, 1]),
            (SAFE, 1, None),
            node=node,
            allow_replication_factor_change=False,
        )


def growth(player: ClusterPlayer, label: str) -> None:
    """CreatePartitions and CreateTopics with assignments, some of which name nodes that are down."""
    for node in player.running:
        for replicas in ([[2, 1]], [[2, 0]], [[1, 2]], [[0, 1]], [[2, 2]], [[]], [[0, 1], [2, 0]]):
            grown = CreatePartitionsTopic(
                name=SAFE,
                count=3 + len(replicas),
                assignments=[CreatePartitionsAssignment(broker_ids=ids) for ids in replicas],
            )
            request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=True)
            player.ask(f"{label}: grow by {replicas}", request, 3, [node])
        grown = CreatePartitionsTopic(
            name=LAST, count=3, assignments=[CreatePartitionsAssignment(broker_ids=[2])]
        )
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=True)
        player.ask(f"{label}: grow with one replica", request, 3, [node])
        for title, sets in {
            "on 2": {0: [2]},
            "on 2 and 1": {0: [2, 1]},
            "with a gap": {0: [0], 2: [1]},
            "unequal": {0: [0], 1: [1, 0]},
            "one on 2": {0: [0], 1: [2]},
        }.items():
            wanted = CreatableTopic(
                name=f"new-{title.replace(' ', '-')}",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
                    for index, ids in sets.items()
                ],
            )
            player.ask(
                f"{label}: create {title}",
                CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=True),
                7,
                [node],
            )


def writes(player: ClusterPlayer, label: str) -> None:
    for topic, assignment in TOPICS.items():
        for index in assignment:
            for acks in (1, -1):
                for node in player.running:
                    one = player.nodes[node]
                    request = produce(one, (topic, index, batch()), acks=acks)
                    request.timeout_ms = 1_500
                    one.ask(f"{label}: produce acks={acks} {topic}-{index} at {node}", request, 12)


def values(player: ClusterPlayer, label: str) -> None:
    """min.insync.replicas while replicas are eligible; unclean elections by a setting."""
    configure(player, f"{label}: three in sync", SAFE, min_insync_replicas="3")
    state(player, f"{label}: three in sync")
    writes(player, f"{label}: three in sync")
    configure(player, f"{label}: one in sync", SAFE, min_insync_replicas="1")
    state(player, f"{label}: one in sync")
    configure(player, f"{label}: none in sync", SAFE, min_insync_replicas="0")
    configure(player, f"{label}: in sync as before", SAFE, min_insync_replicas=None)
    state(player, f"{label}: in sync as before")


def play(player: ClusterPlayer) -> None:
    """All steps. Node 2 is killed and started again."""
    for topic, assignment in TOPICS.items():
        create(player, topic, assignment, 0)
    configure(player, "unclean", UNSAFE, unclean_leader_election_enable="true")
    configure(player, "strict", STRICT, min_insync_replicas="3")
    up(player)
    player.kill(2)
    one_down(player)
    player.restart(2)
    settled(player, SAFE, {0: (0, {0, 1}), 1: (1, {1, 2}), 2: (0, {0, 2})})
    settled(player, UNSAFE, {0: (1, {1, 2}), 1: (1, {1, 2})})
    settled(player, STRICT, {0: (0, {0, 1, 2}), 1: (1, {0, 1, 2})})
    settled(player, LAST, {0: (2, {2}), 1: (1, {1})})
    state(player, "back")
    elections(player, "back")
    settled(player, SAFE, {0: (0, {0, 1}), 1: (1, {1, 2}), 2: (2, {0, 2})})
    state(player, "balanced")


def up(player: ClusterPlayer) -> None:
    state(player, "up")
    elections(player, "up")
    odd_reassignments(player, "up")
    growth(player, "up")
    writes(player, "up")
    values(player, "up")
    for node in (-1, 77):
        player.ask(f"unregister {node}", UnregisterBrokerRequest(broker_id=node), 0)


def one_down(player: ClusterPlayer) -> None:
    settled(player, SAFE, {0: (0, {0, 1}), 1: (1, {1}), 2: (0, {0})})
    settled(player, UNSAFE, {0: (1, {1}), 1: (1, {1})})
    settled(player, STRICT, {0: (0, {0, 1}), 1: (1, {0, 1})})
    player.until_leaders(LAST, {0: -1, 1: 1})
    state(player, "one down")
    elections(player, "one down")
    odd_reassignments(player, "one down")
    growth(player, "one down")
    writes(player, "one down")
    values(player, "one down")
    listed = ListPartitionReassignmentsRequest(topics=None)
    reassign(player, "one down: to the node that is down", (SAFE, 0, [0, 2]))
    player.ask("one down: reassignments", listed, 0)
    state(player, "one down, moving")
    reassign(player, "one down: to another order", (SAFE, 0, [2, 0]))
    player.ask("one down: reassignments after another order", listed, 0)
    state(player, "one down, moving to another order")
    reassign(player, "one down: cancelled", (SAFE, 0, None))
    player.ask("one down: no reassignments", listed, 0)
    state(player, "one down, cancelled")
    reassign(player, "one down: cancelled again", (SAFE, 0, None))
    reassign(player, "one down: away from the node that is down", (SAFE, 2, [0, 1]))
    player.until_replicas(SAFE, 2, [0, 1])
    settled(player, SAFE, {0: (0, {0, 1}), 1: (1, {1}), 2: (0, {0, 1})})
    state(player, "one down, moved")
    reassign(player, "one down: back", (SAFE, 2, [2, 0]))
    player.ask("one down: reassignments back", listed, 0)
    state(player, "one down, moving back")

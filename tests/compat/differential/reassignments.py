"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and UnregisterBroker on one node."""

from __future__ import annotations

from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player


@scenario(ElectLeadersRequest)
def elections(player: Player) -> None:
    topic = player.create("elected", 2)
    unknown = player.topic("no-such-topic")

    def ask(label: str, *partitions: tuple[str, list[int]], kind: int = 0, timeout_ms: int = 5000) -> None:
        wanted = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in partitions]
        request = ElectLeadersRequest(topic_partitions=wanted, timeout_ms=timeout_ms)
        if player.version >= 1:
            request.election_type = kind
        player.ask(label, request)

    for kind in (0, 1) if player.version >= 1 else (0,):
        ask(f"leader already, kind {kind}", (topic, [0, 1]), kind=kind)
        ask(f"unknown partition, kind {kind}", (topic, [0, 7]), kind=kind)
        ask(f"unknown topic, kind {kind}", (unknown, [0]), kind=kind)
        ask(f"nothing, kind {kind}", kind=kind)
        ask(f"no partitions, kind {kind}", (topic, []), kind=kind)
    ask("no time", (topic, [0]), timeout_ms=0)
    if player.version >= 1:
        ask("unknown kind", (topic, [0]), kind=2)


@scenario(AlterPartitionReassignmentsRequest)
def reassignments(player: Player) -> None:
    topic = player.create("moved", 2)
    unknown = player.topic("no-such-topic")

    def ask(label: str, name: str, index: int, replicas: list[int] | None, *, timeout_ms: int = 5000) -> None:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        player.ask(
            label,
            AlterPartitionReassignmentsRequest(
                timeout_ms=timeout_ms, topics=[ReassignableTopic(name=name, partitions=[partition])]
            ),
        )

    ask("as it is", topic, 0, [1])
    ask("unknown broker", topic, 0, [2])
    ask("twice the same", topic, 0, [1, 1])
    ask("negative", topic, 0, [-1])
    ask("no replicas", topic, 0, [])
    ask("cancel nothing", topic, 0, None)
    ask("unknown partition", topic, 7, [1])
    ask("unknown topic", unknown, 0, [1])
    ask("no time", topic, 0, [1], timeout_ms=0)
    player.ask("nothing", AlterPartitionReassignmentsRequest(timeout_ms=5000))
    player.ask("listed", ListPartitionReassignmentsRequest(timeout_ms=5000), 0)


@scenario(ListPartitionReassignmentsRequest)
def listed_reassignments(player: Player) -> None:
    topic = player.create("listed", 2)

    def ask(label: str, topics: list[tuple[str, list[int]]] | None, timeout_ms: int = 5000) -> None:
        wanted = (
            None
            if topics is None
            else [ListPartitionReassignmentsTopics(name=n, partition_indexes=i) for n, i in topics]
        )
        player.ask(label, ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=wanted))

    ask("all", None)
    ask("none", [])
    ask("one", [(topic, [0, 1])])
    ask("unknown partition", [(topic, [7])])
    ask("unknown topic", [(player.topic("no-such-topic"), [0])])
    ask("no time", None, timeout_ms=0)


@scenario(UnregisterBrokerRequest)
def unregistered(player: Player) -> None:
    player.ask("unknown broker", UnregisterBrokerRequest(broker_id=77))
    player.ask("negative", UnregisterBrokerRequest(broker_id=-1))

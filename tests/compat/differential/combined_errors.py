"""Requests with several errors, with repeated and with empty elements: which error is reported, and for what."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.produce import ProduceRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.fetching import fetch, want
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, produce, record, write
from tests.compat.differential.transactional_records import part, put
from tests.compat.differential.transactions import FROM_BROKERS, Client

METADATA = "__cluster_metadata"
TIMEOUTS_MS = (0, -1)
SOME_TIME_MS = 30_000


@scenario(ProduceRequest)
def produce_with_several_errors(player: Player) -> None:
    topic = player.create("t", 2)
    nowhere = player.topic("nowhere")
    twice, nothing = batch() + batch(), b""
    for acks in (2, -2, 32_767):
        for label, parts in {
            "unknown topic": [(nowhere, 0, batch())],
            "unknown partitions": [(topic, 9, batch()), (topic, -1, batch()), (topic, 0, batch())],
            "two batches": [(topic, 0, twice), (topic, 1, batch())],
            "no bytes": [(topic, 0, nothing), (nowhere, 0, nothing)],
            "an internal topic": [("__consumer_offsets", 0, batch())],
        }.items():
            player.ask(f"{label}, acks {acks}", produce(player, *parts, acks=acks))
    for timeout_ms in TIMEOUTS_MS:
        for acks in (1, -1):
            request = produce(player, (topic, 0, batch()), acks=acks)
            request.timeout_ms = timeout_ms
            player.ask(f"timeout {timeout_ms}, acks {acks}", request)
            request = produce(player, (topic, 0, batch()), (topic, 1, batch()), (nowhere, 0, batch()))
            request.timeout_ms = timeout_ms
            player.ask(f"several, timeout {timeout_ms}, acks {acks}", request)
    player.ask("two batches for an internal topic", produce(player, ("__consumer_offsets", 0, twice)))


@scenario(ProduceRequest, since=3)
def produce_transactional_with_several_errors(player: Player) -> None:
    topic, nowhere = player.create("t", 2), player.topic("nowhere")
    client, other = Client(player), Client(player, "other")
    for each in (client, other):
        each.start()
        each.start()
    client.add(topic, 0, 1)
    put(player, "begun", client, (topic, 0, part(client, 0)))
    mine, theirs = part(client, 1), part(other, 0)
    put(player, "another producer, unknown topic", client, (topic, 0, mine), (nowhere, 0, theirs))
    put(player, "another producer, unknown partition", client, (topic, 0, mine), (topic, 9, theirs))
    put(player, "another producer, two batches", client, (topic, 0, mine), (topic, 1, theirs + theirs))
    put(player, "another producer, acks 5", client, (topic, 0, mine), (topic, 1, theirs), acks=5)
    put(player, "two batches", client, (topic, 0, mine + mine))
    put(player, "two batches, acks 5", client, (topic, 0, mine + mine), acks=5)
    put(player, "another id", other, (topic, 0, part(client, 3)))
    put(player, "another id, older epoch", other, (topic, 0, part(client, 3, ahead=-1)))
    put(player, "another id, older epoch, another partition", other, (topic, 1, part(client, 3, ahead=-1)))
    put(player, "unknown topic, acks 5", client, (nowhere, 0, mine), acks=5)


@scenario(FetchRequest)
def fetch_with_several_errors(player: Player) -> None:
    topic, nowhere = player.create("t", 2), player.topic("nowhere")
    write(player, topic, batch(record(bytes(100))), batch(record(bytes(100))))
    write(player, topic, batch(record(bytes(500))), partition=1)
    for isolation in (-1, 2, 127):
        for label, wanted in {
            "nothing": [],
            "unknown": [want(nowhere)],
            "unknown partition": [want(topic, 9)],
            "known and unknown": [want(nowhere), want(topic, 9), want(topic)],
            "out of range": [want(topic, 0, 99)],
        }.items():
            player.ask(f"{label}, isolation {isolation}", fetch(player, *wanted, isolation_level=isolation))
    for limit in (0, 1, 100, 200, 300):
        first, second = want(topic, max_bytes=limit), want(topic, 1, max_bytes=limit)
        for label, options in {"": {}, ", all": {"max_bytes": limit}}.items():
            asked = fetch(player, first, second, isolation_level=1, **options)
            player.ask(f"committed, limit {limit}{label}", asked)
    player.ask("committed, at the end", fetch(player, want(topic, 0, 2), want(topic), isolation_level=1))
    if player.version >= 12:
        diverged = want(topic, 0, 1, last_fetched_epoch=-3), want(topic, 1, 99, last_fetched_epoch=0)
        player.ask("committed, diverged", fetch(player, *diverged, isolation_level=1))


@scenario(FetchRequest, since=7)
def fetch_sessions_with_several_errors(player: Player) -> None:
    topic, nowhere = player.create("t"), player.topic("nowhere")
    write(player, topic, batch())

    def get(label: str, session: int, epoch: int, version: int | None = None, **options: Any) -> Any:
        wanted = options.pop("wanted", [want(topic)])
        asked = fetch(player, *wanted, session_id=session, session_epoch=epoch, **options)
        return player.ask(label, asked, version)

    get("refused at once", 0, 0, isolation_level=9)
    session = get("open", 0, 0).session_id
    get("isolation, another epoch", session, 7, isolation_level=9)
    get("isolation, unknown session", session ^ 1, 1, isolation_level=9)
    get("isolation", session, 1, isolation_level=9)
    get("isolation, nothing new", session, 2, isolation_level=9, wanted=[])
    get("after that", session, 3)
    other = 12 if player.version >= 13 else 13
    get("the other kind of topics, another epoch", session, 9, other)
    get("the other kind of topics", session, 4, other)
    get("still there", session, 4)
    unknown = get("open for an unknown topic", 0, 0, wanted=[want(nowhere)]).session_id
    get("isolation, all unknown", unknown, 1, isolation_level=9, wanted=[])


@scenario(ListOffsetsRequest)
def list_offsets_with_several_errors(player: Player) -> None:
    topic, nowhere = player.create("t", 2), player.topic("nowhere")
    write(player, topic, batch())

    def ask(label: str, *topics: tuple[str, list[tuple[int, int]]], isolation: int = 0) -> None:
        asked = ListOffsetsRequest(replica_id=-1, timeout_ms=1_000)
        asked.topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=n, timestamp=at) for n, at in wanted],
            )
            for name, wanted in topics
        ]
        if player.version >= 2:
            asked.isolation_level = isolation
        player.ask(label, asked)

    ask("a topic twice", (topic, [(0, -1)]), (topic, [(1, -1)]))
    ask("a partition of a topic twice", (topic, [(0, -1)]), (topic, [(0, -2), (1, -1)]))
    ask("no partitions", (topic, []), (nowhere, []))
    ask("no partitions and some", (topic, []), (topic, [(0, -1)]), (nowhere, [(0, -1)]))
    ask("unknown twice", (nowhere, [(0, -1), (0, -1)]))
    ask("unknown time twice", (topic, [(0, -77)]), (topic, [(0, -77)]))
    ask("unknown time of an unknown topic", (nowhere, [(0, -77)]))
    for isolation in (-1, 2):
        ask(f"twice, isolation {isolation}", (topic, [(0, -1), (0, -1)]), (topic, []), isolation=isolation)
        ask(f"nothing, isolation {isolation}", isolation=isolation)
        ask(f"unknown, isolation {isolation}", (nowhere, [(0, -77)]), isolation=isolation)


@scenario(DeleteRecordsRequest)
def delete_records_repeated(player: Player) -> None:
    topic, nowhere = player.create("t", 2), player.topic("nowhere")
    write(player, topic, batch(), batch(), batch())

    def ask(label: str, *topics: tuple[str, list[tuple[int, int]]], timeout_ms: int = SOME_TIME_MS) -> None:
        wanted = [
            DeleteRecordsTopic(
                name=name,
                partitions=[DeleteRecordsPartition(partition_index=n, offset=at) for n, at in parts],
            )
            for name, parts in topics
        ]
        player.ask(label, DeleteRecordsRequest(topics=wanted, timeout_ms=timeout_ms))

    ask("no partitions", (topic, []), (nowhere, []))
    ask("a topic twice", (topic, [(0, 1)]), (topic, [(1, 0)]))
    ask("a partition twice", (topic, [(0, 99), (0, 2)]))
    ask("a topic twice, the last is wrong", (topic, [(0, 3)]), (topic, [(0, 99)]))
    ask("unknown twice", (nowhere, [(0, 1)]), (nowhere, [(0, 2), (7, 1)]))
    for timeout_ms in TIMEOUTS_MS:
        ask(f"timeout {timeout_ms}", (topic, [(0, 2)]), (nowhere, [(0, 2)]), timeout_ms=timeout_ms)


@scenario(CreateTopicsRequest)
def create_topics_without_time(player: Player) -> None:
    def ask(label: str, *names: str, timeout_ms: int, validate_only: bool = False) -> None:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        asked = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        player.ask(f"{label}, {timeout_ms}, {validate_only}", asked)

    new, other = player.topic("new"), player.topic("other")
    for timeout_ms in TIMEOUTS_MS:
        for validate_only in (False, True):
            ask("nothing", timeout_ms=timeout_ms, validate_only=validate_only)
            ask("twice", new, new, timeout_ms=timeout_ms, validate_only=validate_only)
            ask("twice and another", new, new, other, timeout_ms=timeout_ms, validate_only=validate_only)
            ask("the metadata", METADATA, timeout_ms=timeout_ms, validate_only=validate_only)
            ask("a bad name", "a/b", timeout_ms=timeout_ms, validate_only=validate_only)


@scenario(CreatePartitionsRequest)
def create_partitions_without_time(player: Player) -> None:
    topic = player.create("t")

    def ask(label: str, *names: str, timeout_ms: int) -> None:
        topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]
        player.ask(f"{label}, {timeout_ms}", CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms))

    for timeout_ms in TIMEOUTS_MS:
        ask("nothing", timeout_ms=timeout_ms)
        ask("twice", topic, topic, timeout_ms=timeout_ms)
        ask("twice and unknown", topic, topic, player.topic("nowhere"), timeout_ms=timeout_ms)
        ask("unknown", player.topic("nowhere"), timeout_ms=timeout_ms)


@scenario(DeleteTopicsRequest)
def delete_topics_without_time(player: Player) -> None:
    topic = player.create("t")
    topic_id, nowhere = player.topic_id(topic), player.topic("nowhere")

    def ask(label: str, *topics: DeleteTopicState, timeout_ms: int) -> None:
        if player.version >= 6:
            asked = DeleteTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)
        else:
            names = [each.name for each in topics if each.name is not None]
            asked = DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
        player.ask(f"{label}, {timeout_ms}", asked)

    known, unknown = DeleteTopicState(name=topic), DeleteTopicState(name=nowhere)
    for timeout_ms in TIMEOUTS_MS:
        ask("nothing", timeout_ms=timeout_ms)
        ask("twice", known, known, timeout_ms=timeout_ms)
        ask("twice and unknown", known, known, unknown, timeout_ms=timeout_ms)
        ask("unknown", unknown, timeout_ms=timeout_ms)
        if player.version >= 6:
            both = DeleteTopicState(name=topic, topic_id=topic_id)
            ask("neither", DeleteTopicState(), timeout_ms=timeout_ms)
            ask("both", both, timeout_ms=timeout_ms)
            ask("both and known", both, known, timeout_ms=timeout_ms)
            ask("an id twice", *[DeleteTopicState(topic_id=topic_id)] * 2, timeout_ms=timeout_ms)
            ask("an id", DeleteTopicState(topic_id=topic_id), timeout_ms=timeout_ms)


@scenario(ElectLeadersRequest, since=1)
def elections_of_nothing(player: Player) -> None:
    for kind in (0, 1, 2, -1):
        for timeout_ms in (*TIMEOUTS_MS, SOME_TIME_MS):
            asked = ElectLeadersRequest(election_type=kind, topic_partitions=[], timeout_ms=timeout_ms)
            player.ask(f"kind {kind}, timeout {timeout_ms}", asked)


@scenario(AlterPartitionReassignmentsRequest)
def reassignments_of_nothing(player: Player) -> None:
    topic = player.create("t")
    for timeout_ms in TIMEOUTS_MS:
        player.ask(f"nothing, {timeout_ms}", AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms))
        empty = [ReassignableTopic(name=topic, partitions=[])]
        asked = AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=empty)
        player.ask(f"no partitions, {timeout_ms}", asked)


@scenario(DescribeTopicPartitionsRequest)
def pages_of_topics(player: Player) -> None:
    """Pages that end before a topic that does not exist, and cursors at odd places."""
    one, three = player.create("b", 2), player.create("d", 1)
    two, last = player.topic("c"), player.topic("e")

    def ask(label: str, *topics: str, limit: int = 100, cursor: Cursor | None = None) -> None:
        wanted = [TopicRequest(name=name) for name in topics]
        asked = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=limit, cursor=cursor)
        player.ask(label, asked)

    for limit in range(1, 5):
        ask(f"limit {limit}", one, two, three, last, limit=limit)
        ask(f"limit {limit}, unknown first", player.topic("a"), one, limit=limit)
        for name, index in ((one, 1), (two, 0), (two, 5), (three, 1), (last, 0)):
            cursor = Cursor(topic_name=name, partition_index=index)
            ask(f"limit {limit} at {name} {index}", one, two, three, last, limit=limit, cursor=cursor)
    ask("no name", "", one)
    ask("no name, with a cursor", "", one, cursor=Cursor())
    ask("no name, a cursor behind it", "", one, cursor=Cursor(topic_name=one))
    ask("a cursor without a name", one, cursor=Cursor())
    ask("a negative cursor without a name", "", one, cursor=Cursor(partition_index=-1))


@scenario(AddPartitionsToTxnRequest)
def add_partitions_repeated(player: Player) -> None:
    client, topic = Client(player), player.create("t", 2)
    client.start()
    wanted = {
        "a partition twice": [(topic, [0, 0])],
        "a topic twice": [(topic, [0]), (topic, [1])],
        "a topic without partitions": [(topic, []), (topic, [0])],
        "unknown, twice": [(topic, [0, 9, 9])],
        "unknown": [(player.topic("nowhere"), [0, 0]), (topic, [])],
    }

    def ask(label: str) -> None:
        for name, parts in wanted.items():
            topics = [AddPartitionsToTxnTopic(name=each, partitions=indexes) for each, indexes in parts]
            if player.version >= FROM_BROKERS:
                for verify_only in (False, True):
                    transaction = client.transaction(topics, verify_only=verify_only)
                    asked = AddPartitionsToTxnRequest(transactions=[transaction])
                    player.ask(f"{label}, {name}, {verify_only}", asked)
            else:
                asked = client.adding(topic)
                asked.v3_and_below_topics = topics
                player.ask(f"{label}, {name}", asked)

    ask("good")
    client.epoch += 3
    ask("another epoch")
    client.name = player.topic("unknown")
    ask("unknown id")


@scenario(ListTransactionsRequest)
def filters_repeated(player: Player) -> None:
    client = Client(player)
    client.start()
    asked = ListTransactionsRequest(
        producer_id_filters=[client.id, client.id], state_filters=["x", "Empty", "x"]
    )
    player.ask("repeated", asked)


@scenario(FindCoordinatorRequest, since=1, until=5)
def coordinators_of_share_groups(player: Player) -> None:
    """The versions that do not know share groups."""
    asked = FindCoordinatorRequest(key_type=2)
    if player.version >= 4:
        asked.coordinator_keys = ["a", "b"]
    else:
        asked.key = "a"
    player.ask("share", asked)

"""Requests made up by Hypothesis, over two small topics: what nobody thought of asking.

A move is a function that asks one request of a player; it is named by its arguments. Moves only depend on what
the same player was answered before (ids, fetch sessions), never on time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ottla.records.compression import Codec
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.compat.differential.fetching import fetch, want
from tests.compat.differential.player import Player
from tests.compat.differential.records import BASE, batch, produce, record
from tests.compat.differential.settings import TOPIC, change, describe

Move = tuple[str, Callable[..., None], tuple[Any, ...]]
TOPICS = ("a", "b", "nowhere")
LIMITS = st.sampled_from([-1, 0, 1, 60, 100, 150, 300, 1_000, 1 << 24])
OFFSETS = st.integers(-2, 14)


def play(moves: list[Move]) -> Callable[[Player], None]:
    def scenario(player: Player) -> None:
        player.create("a", 2)
        player.create("b", cleanup_policy="compact,delete", max_message_bytes="300")
        session = [0, 0]
        for number, (name, move, arguments) in enumerate(moves):
            move(player, f"{number} {name} {arguments}", session, *arguments)

    return scenario


def _move(
    name: str, function: Callable[..., None], *arguments: st.SearchStrategy[Any]
) -> st.SearchStrategy[Move]:
    return st.tuples(*arguments).map(lambda drawn: (name, function, drawn))


place = st.tuples(st.sampled_from(TOPICS), st.sampled_from([0, 0, 0, 1, 2]))


# Data


def _produce(
    player: Player, label: str, _: Any, version: int, acks: int, where: list[Any], what: list[Any]
) -> None:
    parts = []
    for (topic, index), (drawn, codec, producer) in zip(where, what, strict=False):
        made = [record(b"v" * size, b"k" if keyed else None, at=at) for size, keyed, at in drawn]
        options: dict[str, Any] = {"codec": Codec.GZIP if codec is Codec.ZSTD and version < 7 else codec}
        if producer is not None:
            options |= zip(("producer_id", "producer_epoch", "base_sequence"), producer, strict=True)
        parts.append((player.topic(topic), index, batch(*made, **options)))
    request = produce(player, *parts, acks=acks)
    player.ask(label, request, version)


def _wanted(player: Player, wanted: list[Any]) -> list[Any]:
    return [
        want(player.topic(topic), index, offset, max_bytes=limit) for (topic, index), offset, limit in wanted
    ]


def _fetch(
    player: Player, label: str, _: Any, version: int, limit: int, isolation: int, wanted: list[Any]
) -> None:
    request = fetch(player, *_wanted(player, wanted), max_bytes=limit, isolation_level=isolation)
    player.ask(label, request, version)


def _fetch_on(player: Player, label: str, session: list[int], by_id: bool, limit: int, wanted: list[Any],
              forgotten: list[Any], restart: bool) -> None:  # fmt: skip
    """A step of the scenario's one session, or its beginning."""
    if restart:
        session[1] = 0
    by_topic: dict[str, list[int]] = {}
    for topic, index in forgotten if session[1] else ():
        by_topic.setdefault(player.topic(topic), []).append(index)
    request = fetch(player, *_wanted(player, wanted), forgotten=by_topic, max_bytes=limit,
                    session_id=session[0], session_epoch=session[1])  # fmt: skip
    answer = player.ask(label, request, 16 if by_id else 12)
    if answer.error_code == 0 and answer.session_id:
        session[:] = [answer.session_id, session[1] + 1]
    else:
        session[:] = [0, 0]


def _offsets(player: Player, label: str, _: Any, version: int, isolation: int, asked: list[Any]) -> None:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, index), at in asked:
        name = player.topic(topic)
        entry = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
        entry.partitions.append(
            ListOffsetsPartition(partition_index=index, timestamp=at if at < 0 else BASE + at)
        )
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=list(topics.values()))
    player.ask(label, request, version)


def _delete(player: Player, label: str, _: Any, version: int, where: tuple[str, int], offset: int) -> None:
    part = DeleteRecordsPartition(partition_index=where[1], offset=offset)
    topic = DeleteRecordsTopic(name=player.topic(where[0]), partitions=[part])
    player.ask(label, DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), version)


def _epoch(
    player: Player, label: str, _: Any, version: int, where: tuple[str, int], epoch: int, current: int
) -> None:
    part = OffsetForLeaderPartition(partition=where[1], leader_epoch=epoch, current_leader_epoch=current)
    topic = OffsetForLeaderTopic(topic=player.topic(where[0]), partitions=[part])
    player.ask(label, OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), version)


def _producers(player: Player, label: str, _: Any, where: tuple[str, int]) -> None:
    topic = TopicRequest(name=player.topic(where[0]), partition_indexes=[where[1]])
    player.ask(label, DescribeProducersRequest(topics=[topic]), 0)


one_record = st.tuples(
    st.sampled_from([0, 5, 120, 400]), st.sampled_from([True, True, False]), st.integers(0, 60)
)
rows = st.lists(one_record, min_size=1, max_size=4)
producers = st.none() | st.tuples(st.integers(1, 2), st.integers(0, 1), st.integers(0, 6))
batches = st.tuples(rows, st.sampled_from(list(Codec)), producers)
wanted = st.lists(st.tuples(place, OFFSETS, LIMITS), max_size=4)

data_moves = st.lists(
    st.one_of(
        _move("produce", _produce, st.integers(3, 13), st.sampled_from([-1, 1]),
              st.lists(place, min_size=1, max_size=3), st.lists(batches, min_size=3, max_size=3)),
        _move("produce one", _produce, st.integers(3, 13), st.just(-1),
              st.lists(place, min_size=1, max_size=1), st.lists(batches, min_size=1, max_size=1)),
        _move("fetch", _fetch, st.integers(4, 18), LIMITS, st.integers(0, 1), wanted),
        _move("session", _fetch_on, st.just(True), LIMITS, wanted, st.lists(place, max_size=2),
              st.sampled_from([False, False, False, True])),
        _move("offsets", _offsets, st.integers(2, 11), st.integers(0, 1),
              st.lists(st.tuples(place, st.integers(-7, 70)), min_size=1, max_size=3)),
        _move("delete", _delete, st.integers(0, 2), place, OFFSETS),
        _move("epoch", _epoch, st.integers(2, 4), place, st.integers(-2, 2), st.integers(-1, 1)),
        _move("producers", _producers, place),
    ),
    min_size=6, max_size=14,
)  # fmt: skip


# Administration

KEYS = ("cleanup.policy", "retention.ms", "segment.bytes", "min.insync.replicas", "compression.type", "nonsense",
        "max.message.bytes", "min.compaction.lag.ms", "max.compaction.lag.ms", "unclean.leader.election.enable",
        "message.timestamp.type", "min.cleanable.dirty.ratio", "leader.replication.throttled.replicas",
        "compression.zstd.level", "segment.index.bytes", "preallocate", "remote.storage.enable",
        "local.retention.ms", "local.retention.bytes", "retention.bytes", "flush.messages",
        "errors.deadletterqueue.topic.name")  # fmt: skip
VALUES = ("", "0", "1", "-1", "-2", "5", "1048576", "4294967296", "9223372036854775807", "9223372036854775808", "0.5",
          "1.5", "true", "FALSE", "compact", "delete", "compact,delete", "delete,delete", "gzip", "zstd", "producer",
          "LogAppendTime", "createtime", "*", "0:1", "0:1,1:2", " 7 ", "1e3", "0x10", None)  # fmt: skip


def _create(player: Player, label: str, _: Any, version: int, count: int, factor: int, configs: list[Any],
            assigned: list[Any]) -> None:  # fmt: skip
    topic = CreatableTopic(
        name=player.topic("new"),
        num_partitions=count,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in assigned],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )
    player.ask(label, CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=True), version)


def _grow(
    player: Player, label: str, _: Any, version: int, topic: str, count: int, assigned: list[Any] | None
) -> None:
    assignments = (
        None if assigned is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    )
    wanted = CreatePartitionsTopic(name=player.topic(topic), count=count, assignments=assignments)
    player.ask(
        label, CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000, validate_only=True), version
    )


def _alter(player: Player, label: str, _: Any, version: int, topic: str, changes: list[Any]) -> None:
    name = player.topic(topic)
    answer = player.ask(label, change((TOPIC, name, changes)), version)
    if answer.responses[0].error_code == 0:
        _settled(player, name)
        player.ask(f"{label}: after", describe((TOPIC, name, None), include_synonyms=True), 4)


def _settled(player: Player, topic: str) -> None:
    """Wait until the broker has heard of the last change, by a change of its own."""
    marker = str(2_000_000 + len(player.asked))
    player.quietly(change((TOPIC, topic, [("flush.ms", 0, marker)])), 1)

    def seen() -> bool:
        answer: Any = player.quietly(describe((TOPIC, topic, ["flush.ms"])), 4)
        return bool(answer.results[0].configs[0].value == marker)

    player.until(seen)


def _describe(
    player: Player, label: str, _: Any, version: int, topic: str, keys: list[str] | None, synonyms: bool
) -> None:
    player.ask(label, describe((TOPIC, player.topic(topic), keys), include_synonyms=synonyms), version)


def _metadata(player: Player, label: str, _: Any, version: int, topics: list[str]) -> None:
    asked = [MetadataRequestTopic(name=player.topic(name)) for name in topics]
    player.ask(label, MetadataRequest(topics=asked, allow_auto_topic_creation=False), version)


brokers = st.lists(st.sampled_from([1, 1, 1, 2, -1]), max_size=2)
changes = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 3), st.sampled_from(VALUES)), min_size=1, max_size=3
)

admin_moves = st.lists(
    st.one_of(
        _move("create", _create, st.integers(2, 7), st.integers(-2, 3), st.sampled_from([-2, -1, 0, 1, 1, 1, 2]),
              st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=3), st.just([])),
        _move("create by hand", _create, st.integers(2, 7), st.sampled_from([-1, -1, 1]), st.sampled_from([-1, -1, 1]),
              st.just([]), st.lists(st.tuples(st.integers(0, 2), brokers), min_size=1, max_size=3)),
        _move("grow", _grow, st.integers(0, 3), st.sampled_from(TOPICS), st.integers(-1, 5),
              st.none() | st.lists(brokers, max_size=3)),
        _move("alter", _alter, st.integers(0, 1), st.sampled_from(TOPICS), changes),
        _move("describe", _describe, st.integers(1, 4), st.sampled_from(TOPICS),
              st.none() | st.lists(st.sampled_from(KEYS), max_size=3), st.booleans()),
        _move("metadata", _metadata, st.integers(4, 13), st.lists(st.sampled_from(TOPICS), max_size=3)),
    ),
    min_size=4, max_size=10,
)  # fmt: skip

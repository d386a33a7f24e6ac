"""Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions."""

from __future__ import annotations

import uuid

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
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, produce
from tests.compat.differential.settings import TOPIC, describe

UNKNOWN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")


def _metadata(player: Player, *names: str | None, **options: bool) -> MetadataRequest:
    if player.version >= 4:
        options.setdefault("allow_auto_topic_creation", False)
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


@scenario(MetadataRequest)
def metadata_by_name(player: Player) -> None:
    three, one = player.create("three", 3), player.create("one")
    player.ask("in the order asked", _metadata(player, one, three))
    player.ask("the same twice", _metadata(player, three, three))
    if player.version >= 1:
        player.ask("none", MetadataRequest(topics=[]))
    if player.version >= 4:
        player.ask("unknown between known", _metadata(player, three, player.topic("nowhere"), one))
        player.ask("an internal topic that is not there", _metadata(player, "__share_group_state"))
    player.ask("names no topic can have", _metadata(player, "", ".", "..", "a b", "x" * 250, "ä", one))
    if player.version >= 8:
        player.ask("operations", _metadata(player, one, include_topic_authorized_operations=True))
        player.ask(
            "operations on unknown", _metadata(player, "nowhere", include_topic_authorized_operations=True)
        )
    if 8 <= player.version <= 10:
        player.ask("operations on cluster", _metadata(player, include_cluster_authorized_operations=True))
    player.only_own_topics = True
    everything = None if player.version >= 1 else []
    player.ask("all", MetadataRequest(topics=everything))


@scenario(MetadataRequest)
def metadata_creates(player: Player) -> None:
    name = player.topic("made")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    player.ask("the first time", asked)
    player.wait_for(name)
    player.ask("when it is there", asked)
    player.ask("a good and a bad name", _metadata(player, name, "b/d"))


@scenario(MetadataRequest)
def metadata_cannot_create(player: Player) -> None:
    """A topic that the controller refuses to create is reported as unknown."""
    player.create("a_b")
    for name in (player.topic("a.b"), "__cluster_metadata"):
        creating = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        player.ask(f"creating {name}", creating)
        player.ask(f"again {name}", creating)
        if player.version >= 4:
            player.ask(f"asking for {name}", _metadata(player, name))


@scenario(MetadataRequest, newest_only=True)
def internal_topics(player: Player) -> None:
    for name in ("__consumer_offsets", "__share_group_state"):
        player.quietly(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        player.wait_for(name, 50)
        player.ask(f"{name} is made", _metadata(player, name))
        player.ask(f"{name} has settings", describe((TOPIC, name, None), include_synonyms=True), 4)
        attempt = player.quietly(produce(player, (name, 0, batch())), 13)
        player.keep(f"{name} is not for clients", attempt.responses[0].partition_responses[0].error_code)


@scenario(MetadataRequest, since=10)
def metadata_by_id(player: Player) -> None:
    one = player.create("one", 2)
    topic_id = player.topic_id(one)

    def by(*topics: MetadataRequestTopic) -> MetadataRequest:
        return MetadataRequest(topics=list(topics), allow_auto_topic_creation=False)

    player.ask("known", by(MetadataRequestTopic(topic_id=topic_id, name=None)))
    player.ask("unknown", by(MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)))
    player.ask("twice", by(*[MetadataRequestTopic(topic_id=topic_id, name=None)] * 2))
    player.ask("with its name", by(MetadataRequestTopic(topic_id=topic_id, name=one)))
    player.ask("with another name", by(MetadataRequestTopic(topic_id=topic_id, name="other")))
    player.ask("neither", by(MetadataRequestTopic(name=None)))
    player.ask(
        "mixed",
        by(MetadataRequestTopic(name=one), MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)),
    )


def _creation(
    player: Player, name: str, count: int = 1, factor: int = 1, **configs: str | None
) -> CreatableTopic:
    return CreatableTopic(
        name=player.topic(name),
        num_partitions=count,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def _assigned(
    player: Player, name: str, *replicas: tuple[int, list[int]], count: int = -1, factor: int = -1
) -> CreatableTopic:
    return CreatableTopic(
        name=player.topic(name),
        num_partitions=count,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in replicas],
    )


@scenario(CreateTopicsRequest)
def create_topics(player: Player) -> None:
    def create(
        label: str, *topics: CreatableTopic, timeout_ms: int = 30_000, validate_only: bool = False
    ) -> None:
        answer = player.quietly(
            CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
        )
        for topic in getattr(answer, "topics", ()):
            if topic.error_code == 0 and player.version >= 7 and topic.topic_id.int:
                player.names[topic.topic_id] = topic.name
        player.keep(label, player.plain(answer))

    create("nothing")
    create("one", _creation(player, "one"))
    create("the same again", _creation(player, "one"))
    create("the same twice in a request", _creation(player, "twice"), _creation(player, "twice", 2))
    create("three", _creation(player, "many", 3), _creation(player, "one"), _creation(player, "last"))
    create("defaults", _creation(player, "defaults", -1, -1))
    create("validate only", _creation(player, "checked", 5), validate_only=True)
    create("validate only, bad", _creation(player, "checked", 0), validate_only=True)
    create("validated one was not made", _creation(player, "checked", 1))
    create("no partitions", _creation(player, "zero", 0))
    create("minus two partitions", _creation(player, "minus", -2))
    create("no replicas", _creation(player, "zero", 1, 0))
    create("minus two replicas", _creation(player, "minus", 1, -2))
    create("more replicas than brokers", _creation(player, "crowd", 1, 2))
    create("settings", _creation(player, "set", cleanup_policy="compact", retention_ms="1000"))
    create(
        "settings as written",
        _creation(player, "spaces", retention_ms=" 7 ", cleanup_policy="delete, delete"),
    )
    create("unknown setting", _creation(player, "odd", no_such_setting="1"))
    create("bad value", _creation(player, "odd", retention_ms="soon"))
    create("bad word", _creation(player, "odd", cleanup_policy="burn"))
    create("out of range", _creation(player, "odd", min_insync_replicas="0"))
    create("null value", _creation(player, "odd", retention_ms=None))
    create("empty policy", _creation(player, "emptied", cleanup_policy=""))
    create(
        "settings that contradict",
        _creation(player, "odd", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
    )
    create("tiered", _creation(player, "odd", remote_storage_enable="true"))
    create("the same setting twice", CreatableTopic(
        name=player.topic("doubled"), num_partitions=1, replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value=value) for value in ("5000", "6000")],
    ))  # fmt: skip
    create("names", *[CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                      for name in ("", ".", "..", "a b", "x" * 250, "ä", "__cluster_metadata")])  # fmt: skip
    create("a.b", _creation(player, "a.b"))
    create("a_b", _creation(player, "a_b"))
    create("c.d and c_d", _creation(player, "c.d"), _creation(player, "c_d"))
    create("no time", _creation(player, "late"), timeout_ms=0)
    create("negative time", _creation(player, "late"), timeout_ms=-1)
    create("assigned", _assigned(player, "by-hand", (0, [1]), (1, [1])))
    create("assigned out of order", _assigned(player, "by-hand-2", (1, [1]), (0, [1])))
    create("assigned with counts", _assigned(player, "bad-hand", (0, [1]), count=1, factor=1))
    create("assigned with partitions", _assigned(player, "bad-hand", (0, [1]), count=1))
    create("assigned with a gap", _assigned(player, "bad-hand", (0, [1]), (2, [1])))
    create("assigned twice", _assigned(player, "bad-hand", (0, [1]), (0, [1])))
    create("no replicas", _assigned(player, "bad-hand", (0, [])))
    create("assigned to a stranger", _assigned(player, "bad-hand", (0, [9])))
    create("assigned to one broker twice", _assigned(player, "bad-hand", (0, [1, 1])))
    create("assigned unevenly", _assigned(player, "bad-hand", (0, [1]), (1, [1, 9])))
    create("assigned to a negative broker", _assigned(player, "bad-hand", (0, [-1])))
    create("assigned from one", _assigned(player, "bad-hand", (1, [1])))
    create("too many partitions", _creation(player, "huge", 10_001))


@scenario(DeleteTopicsRequest)
def delete_topics(player: Player) -> None:
    names = [player.create(f"t{n}") for n in range(4)]
    nowhere = player.topic("nowhere")

    def delete(label: str, *topics: str, timeout_ms: int = 30_000) -> None:
        if player.version >= 6:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in topics], timeout_ms=timeout_ms
            )
        else:
            request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=timeout_ms)
        player.ask(label, request)

    delete("nothing")
    delete("unknown", nowhere)
    delete("a bad name", "a/b", "")
    delete("no time", names[0], timeout_ms=0)
    player.wait_for(names[0])
    delete("twice", names[0], names[0])
    delete("known and unknown", names[0], nowhere)
    player.wait_gone(names[0])
    delete("again", names[0])
    if player.version >= 6:
        by_id = player.topic_id(names[1])

        def ask(label: str, *topics: DeleteTopicState) -> None:
            player.ask(label, DeleteTopicsRequest(topics=list(topics), timeout_ms=30_000))

        ask("unknown id", DeleteTopicState(topic_id=UNKNOWN_ID))
        ask("neither", DeleteTopicState())
        ask("both in one", DeleteTopicState(name=names[1], topic_id=by_id))
        ask("name and id", DeleteTopicState(name=names[1]), DeleteTopicState(topic_id=by_id))
        ask("id twice", DeleteTopicState(topic_id=by_id), DeleteTopicState(topic_id=by_id))
        ask("id", DeleteTopicState(topic_id=by_id), DeleteTopicState(topic_id=UNKNOWN_ID))
        player.wait_gone(names[1])
        ask("id again", DeleteTopicState(topic_id=by_id))
    again = player.quietly(CreateTopicsRequest(topics=[_creation(player, "t0", 2)], timeout_ms=30_000), 7)
    player.keep("made anew", again.topics[0].error_code)
    player.wait_for(names[0], 2)


@scenario(CreatePartitionsRequest)
def create_partitions(player: Player) -> None:
    one = player.create("one")

    def grow(
        label: str, *topics: CreatePartitionsTopic, timeout_ms: int = 30_000, validate_only: bool = False
    ) -> None:
        player.ask(
            label,
            CreatePartitionsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only),
        )

    def to(count: int, *replicas: list[int], name: str = one) -> CreatePartitionsTopic:
        assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in replicas] or None
        return CreatePartitionsTopic(name=name, count=count, assignments=assignments)

    grow("nothing")
    grow("unknown", to(2, name=player.topic("nowhere")))
    grow("bad name", to(2, name="a/b"))
    grow("as many", to(1))
    grow("fewer", to(0))
    grow("negative", to(-1))
    grow("validate only", to(3), validate_only=True)
    grow("validate only, bad", to(1), validate_only=True)
    grow("twice", to(2), to(3))
    grow("no time", to(2), timeout_ms=0)
    grow("assigned to a stranger", to(2, [9]))
    grow("no replicas", to(2, []))
    grow("assigned to one twice", to(2, [1, 1]))
    grow("too few assigned", to(3, [1]))
    grow("too many assigned", to(2, [1], [1]))
    grow("no assignments at all", CreatePartitionsTopic(name=one, count=2, assignments=[]))
    grow("assigned", to(2, [1]))
    grow("more, and an unknown one", to(4), to(4, name=player.topic("nowhere")))
    player.wait_for(one, 4)
    grow("the same again", to(4))
    player.ask("partitions", MetadataRequest(topics=[MetadataRequestTopic(name=one)]), 12)


@scenario(DescribeTopicPartitionsRequest)
def describe_topic_partitions(player: Player) -> None:
    names = [player.create("a", 5), player.create("b", 2), player.create("c", 3)]

    def describe(label: str, *topics: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> None:
        player.ask(
            label,
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in topics],
                response_partition_limit=limit,
                cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
            ),
        )

    a, b, c = names
    describe("out of order", c, a, b)
    describe("twice", a, a)
    describe("unknown", a, player.topic("nowhere"), player.topic("anywhere"))
    describe("bad names", "", "a/b", "x" * 250)
    for limit in range(-1, 12):
        describe(f"limit {limit}", a, b, c, limit=limit)
    for cursor in (
        (a, 0),
        (a, 3),
        (a, 4),
        (a, 5),
        (a, 9),
        (b, 1),
        (c, 0),
        (player.topic("bb"), 1),
        ("zzzz", 0),
    ):
        describe(f"cursor {cursor[0].removeprefix(player.prefix)} {cursor[1]}", a, b, c, cursor=cursor)
        describe(
            f"cursor and limit {cursor[0].removeprefix(player.prefix)} {cursor[1]}",
            a,
            b,
            c,
            cursor=cursor,
            limit=2,
        )
    describe("cursor of a topic not asked for", a, c, cursor=(b, 0))
    describe("negative cursor", a, cursor=(a, -1))
    describe("limit ends a topic", a, b, limit=5)

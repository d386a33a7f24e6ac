"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import Any

from ottla.records.compression import Codec
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.produce import ProduceRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, produce, record, stored

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(*resources: tuple[int, str, list[str] | None], **options: bool) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        **options,
    )


@scenario(DescribeConfigsRequest)
def describe_configs(player: Player) -> None:
    plain = player.create("plain")
    odd = player.create("odd", cleanup_policy="compact,delete", retention_ms="5000", min_insync_replicas="1")
    docs = {"include_documentation": True} if player.version >= 3 else {}
    player.ask("nothing", describe())
    player.ask("a topic", describe((TOPIC, plain, None)))
    player.ask("a topic with everything", describe((TOPIC, odd, None), include_synonyms=True, **docs))
    player.ask("some keys", describe((TOPIC, odd, ["retention.ms", "nonsense", "segment.bytes"])))
    player.ask("no keys", describe((TOPIC, odd, [])))
    player.ask("two topics", describe((TOPIC, odd, ["flush.ms"]), (TOPIC, plain, ["flush.ms"])))
    player.ask("twice", describe((TOPIC, odd, ["flush.ms"]), (TOPIC, odd, ["segment.ms"])))
    player.ask("unknown topic", describe((TOPIC, player.topic("nowhere"), None)))
    player.ask("bad topic", describe((TOPIC, "a/b", None), (TOPIC, "", None)))
    player.ask("broker", describe((BROKER, "1", None), include_synonyms=True, **docs))
    player.ask("broker defaults", describe((BROKER, "", None), include_synonyms=True))
    player.ask("other broker", describe((BROKER, "2", None)))
    player.ask("broker that is no number", describe((BROKER, "x", None)))
    player.ask("loggers", describe((LOGGER, "1", None)))
    player.ask("loggers of another broker", describe((LOGGER, "2", None)))
    player.ask("loggers of no broker", describe((LOGGER, "", None)))
    for kind in (0, 1, 3, 5, 64, 127, -1):
        player.ask(f"kind {kind}", describe((kind, "x", None)))
    player.ask("metrics", describe((CLIENT_METRICS, "m", None)))
    player.ask("metrics without a name", describe((CLIENT_METRICS, "", None)))
    player.ask("group", describe((GROUP, player.topic("g"), None), include_synonyms=True))
    player.ask("group without a name", describe((GROUP, "", None)))
    player.ask("good and bad", describe((TOPIC, odd, ["flush.ms"]), (BROKER, "7", None), (77, "x", None)))


def alter(
    *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False
) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )


Change = tuple[str, int, str | None]


def change(
    *resources: tuple[int, str, list[Change]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )


def _look(player: Player, label: str, kind: int, name: str) -> None:
    """What is set on a resource, once the broker has heard of it."""
    answer: Any = player.quietly(describe((kind, name, None)), 4)
    entries = answer.results[0].configs
    player.keep(label, {one.name: one.value for one in entries if one.config_source in (1, 2, 3, 7, 8)})


def _forget_metrics(player: Player) -> None:
    """Remove the subscription: it would change the responses in other scenarios."""
    keys = ("interval.ms", "metrics", "match")
    player.quietly(change((CLIENT_METRICS, player.topic("m"), [(key, DELETE, None) for key in keys])), 1)


@scenario(AlterConfigsRequest)
def alter_configs_whole(player: Player) -> None:
    topic = player.create("one", retention_ms="7000")

    def ask(label: str, *resources: tuple[int, str, dict[str, str | None]], **options: bool) -> None:
        player.ask(label, alter(*resources, **options))

    ask("nothing")
    ask("no settings", (TOPIC, topic, {}))
    _settle(player, topic)
    _look(player, "all gone", TOPIC, topic)
    ask("two", (TOPIC, topic, {"cleanup.policy": "compact", "segment.bytes": "2097152"}))
    ask("validate only", (TOPIC, topic, {"flush.ms": "5"}), validate_only=True)
    ask("unknown key", (TOPIC, topic, {"nonsense": "1"}))
    ask("bad value", (TOPIC, topic, {"flush.ms": "soon"}))
    ask("null value", (TOPIC, topic, {"flush.ms": None}))
    ask("empty value", (TOPIC, topic, {"flush.ms": ""}))
    ask(
        "bad and good resource",
        (TOPIC, topic, {"flush.ms": "soon"}),
        (TOPIC, player.topic("nowhere"), {"flush.ms": "1"}),
    )
    player.set_timeout(2.0)
    ask("the same twice", (TOPIC, topic, {"flush.ms": "1"}), (TOPIC, topic, {"flush.ms": "2"}))
    ask("bad names", (TOPIC, "", {}), (TOPIC, "a/b", {"flush.ms": "1"}))
    ask("broker read-only", (BROKER, "1", {"broker.id": "5"}))
    ask("broker unknown", (BROKER, "9", {"background.threads": "3"}))
    ask("broker no number", (BROKER, "x", {"background.threads": "3"}))
    ask("broker bad value", (BROKER, "1", {"background.threads": "many"}))
    ask("broker, validate only", (BROKER, "1", {"log.cleaner.threads": "1"}), validate_only=True)
    for kind in (0, 1, 3, 64, -1):
        ask(f"kind {kind}", (kind, "x", {"a": "b"}))
    ask("loggers", (LOGGER, "1", {"root": "INFO"}))
    ask("metrics", (CLIENT_METRICS, player.topic("m"), {"interval.ms": "5"}))
    ask("metrics, nameless", (CLIENT_METRICS, "", {"interval.ms": "1000"}))
    ask("group", (GROUP, player.topic("g"), {"consumer.session.timeout.ms": "46000"}))
    ask("group out of range", (GROUP, player.topic("g"), {"consumer.session.timeout.ms": "1"}))
    ask("group, nameless", (GROUP, "", {"consumer.session.timeout.ms": "46000"}))
    _settle(player, topic)
    _look(player, "topic in the end", TOPIC, topic)
    _look(player, "group in the end", GROUP, player.topic("g"))
    _forget_metrics(player)


def _settle(player: Player, topic: str) -> None:
    """Wait until the broker has seen every change asked for so far."""
    marker = str(1_000_000 + len(player.asked))
    player.quietly(change((TOPIC, topic, [("flush.ms", SET, marker)])), 1)

    def seen() -> bool:
        answer: Any = player.quietly(describe((TOPIC, topic, ["flush.ms"])), 4)
        return bool(answer.results[0].configs[0].value == marker)

    player.until(seen)
    player.quietly(change((TOPIC, topic, [("flush.ms", DELETE, None)])), 1)
    player.until(lambda: not seen())


@scenario(IncrementalAlterConfigsRequest)
def alter_configs_stepwise(player: Player) -> None:
    topic = player.create("one", cleanup_policy="compact", flush_ms="9")

    def ask(label: str, *changes: Change, validate_only: bool = False) -> None:
        player.ask(label, change((TOPIC, topic, list(changes)), validate_only=validate_only))

    player.ask("nothing", change())
    ask("no changes")
    ask("set", ("retention.ms", SET, "5000"))
    ask("set null", ("retention.ms", SET, None))
    ask("set bad", ("retention.ms", SET, "x"))
    ask("set spaces", ("retention.ms", SET, " 7000 "))
    ask("append", ("cleanup.policy", APPEND, "delete"))
    ask("append what is there", ("cleanup.policy", APPEND, "delete"))
    ask("append bad", ("cleanup.policy", APPEND, "burn"))
    ask("append null", ("cleanup.policy", APPEND, None))
    ask("append to no list", ("retention.ms", APPEND, "1"))
    ask("subtract", ("cleanup.policy", SUBTRACT, "compact"))
    ask("subtract what is not there", ("cleanup.policy", SUBTRACT, "compact"))
    ask("subtract the last", ("cleanup.policy", SUBTRACT, "delete"))
    ask("subtract from no list", ("retention.ms", SUBTRACT, "1"))
    ask("append to a default", ("leader.replication.throttled.replicas", APPEND, "0:1"))
    ask("append two", ("leader.replication.throttled.replicas", APPEND, "1:1,2:1"))
    ask("bad throttle", ("leader.replication.throttled.replicas", SET, "nonsense"))
    ask("delete", ("flush.ms", DELETE, None))
    ask("delete with a value", ("flush.ms", DELETE, "5"))
    ask("delete what is not set", ("segment.ms", DELETE, None))
    ask("delete unknown", ("nonsense", DELETE, None))
    ask("set unknown", ("nonsense", SET, "1"))
    ask("append unknown", ("nonsense", APPEND, "1"))
    ask("operation 9", ("flush.ms", 9, "1"))
    ask("operation -1", ("flush.ms", -1, "1"))
    ask("twice the same key", ("flush.ms", SET, "1"), ("flush.ms", SET, "2"))
    ask("two keys", ("segment.ms", SET, "1000000"), ("segment.bytes", SET, "4194304"))
    ask("validate only", ("segment.ms", SET, "5000000"), validate_only=True)
    ask("one good, one bad", ("segment.ms", SET, "6000000"), ("segment.bytes", SET, "1"))
    ask("empty key", ("", SET, "1"))
    ask("contradiction", ("max.compaction.lag.ms", SET, "1"), ("min.compaction.lag.ms", SET, "5"))
    ask("min in sync", ("min.insync.replicas", SET, "2"))
    ask("min in sync zero", ("min.insync.replicas", SET, "0"))
    ask("min in sync deleted", ("min.insync.replicas", DELETE, None))
    player.ask("unknown topic", change((TOPIC, player.topic("nowhere"), [("flush.ms", SET, "1")])))
    player.ask("bad topic", change((TOPIC, "a/b", [("flush.ms", SET, "1")]), (TOPIC, "", [])))
    player.ask("topic twice", change((TOPIC, topic, [("flush.ms", SET, "1")]), (TOPIC, topic, [])))
    for kind in (0, 1, 3, 64, -1):
        player.ask(f"kind {kind}", change((kind, "x", [("a", SET, "b")])))
    _settle(player, topic)
    _look(player, "in the end", TOPIC, topic)


@scenario(IncrementalAlterConfigsRequest)
def alter_broker(player: Player) -> None:
    topic = player.create("one")

    def ask(label: str, name: str, *changes: Change, kind: int = BROKER, validate_only: bool = False) -> None:
        player.ask(label, change((kind, name, list(changes)), validate_only=validate_only))

    ask("default", "", ("log.retention.ms", SET, "400000000"))
    ask("one", "1", ("log.cleaner.threads", SET, "2"))
    ask("read-only", "1", ("log.dirs", SET, "/elsewhere"))
    ask("read-only default", "", ("broker.rack", SET, "x"))
    ask("per broker as default", "", ("listeners", SET, "PLAINTEXT://:1"))
    ask("bad", "1", ("log.cleaner.threads", SET, "x"))
    ask("out of range", "1", ("log.cleaner.threads", SET, "0"))
    ask("null", "1", ("log.cleaner.threads", SET, None))
    ask("unknown key", "1", ("my.own.key", SET, "x"))
    ask("other broker", "5", ("log.cleaner.threads", SET, "1"))
    ask("no number", "x", ("log.cleaner.threads", SET, "1"))
    ask("append", "", ("log.cleanup.policy", APPEND, "compact"))
    ask("validate only", "1", ("message.max.bytes", SET, "99"), validate_only=True)
    ask("in sync", "", ("min.insync.replicas", SET, "3"))
    ask("in sync of one broker", "1", ("min.insync.replicas", SET, "3"))
    ask("in sync back", "", ("min.insync.replicas", SET, "1"))
    ask("in sync deleted", "", ("min.insync.replicas", DELETE, None))
    ask("unclean", "", ("unclean.leader.election.enable", SET, "false"))
    ask("loggers", "1", ("kafka.server.ReplicaManager", SET, "DEBUG"), kind=LOGGER, validate_only=True)
    ask("loggers of another", "3", ("root", SET, "DEBUG"), kind=LOGGER)
    ask("loggers bad level", "1", ("root", SET, "LOUD"), kind=LOGGER)
    _settle(player, topic)
    player.ask(
        "topic sees it",
        describe(
            (TOPIC, topic, ["retention.ms", "min.insync.replicas", "cleanup.policy"]), include_synonyms=True
        ),
        4,
    )
    _look(player, "broker", BROKER, "1")
    _look(player, "defaults", BROKER, "")
    player.ask("resources", ListConfigResourcesRequest(resource_types=[BROKER]), 1)
    ask("undone", "", ("log.retention.ms", DELETE, None), ("log.cleanup.policy", DELETE, None),
        ("unclean.leader.election.enable", DELETE, None))  # fmt: skip
    ask("undone for one", "1", ("log.cleaner.threads", DELETE, None), ("my.own.key", DELETE, None))
    ask("undone what was refused", "1", ("min.insync.replicas", DELETE, None))
    ask(
        "metrics",
        player.topic("m"),
        ("interval.ms", SET, "1000"),
        ("metrics", SET, "a,b"),
        kind=CLIENT_METRICS,
    )
    ask("metrics bad key", player.topic("m"), ("nonsense", SET, "1000"), kind=CLIENT_METRICS)
    ask("metrics bad value", player.topic("m"), ("interval.ms", SET, "1"), kind=CLIENT_METRICS)
    ask("metrics bad match", player.topic("m"), ("match", SET, "what=ever"), kind=CLIENT_METRICS)
    ask("metrics, nameless", "", ("interval.ms", SET, "1000"), kind=CLIENT_METRICS)
    ask("group", player.topic("g"), ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP)
    ask("group bad key", player.topic("g"), ("nonsense", SET, "1"), kind=GROUP)
    ask("group bad value", player.topic("g"), ("consumer.session.timeout.ms", SET, "x"), kind=GROUP)
    ask("group, nameless", "", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP)
    _settle(player, topic)
    _look(player, "metrics set", CLIENT_METRICS, player.topic("m"))
    _look(player, "group set", GROUP, player.topic("g"))
    player.only_own_topics = True
    player.ask("all resources", ListConfigResourcesRequest(), 1)
    _forget_metrics(player)


@scenario(ListConfigResourcesRequest)
def list_config_resources(player: Player) -> None:
    player.create("one", flush_ms="1")
    player.create("two")
    own = player.topic("m"), player.topic("g")
    player.quietly(change((CLIENT_METRICS, own[0], [("interval.ms", SET, "1000")])), 1)
    player.quietly(change((GROUP, own[1], [("consumer.session.timeout.ms", SET, "50000")])), 1)
    _settle(player, player.topic("one"))
    player.only_own_topics = True
    player.ask("all", ListConfigResourcesRequest())
    if player.version >= 1:
        for kinds in ([2], [4], [8], [16], [32], [2, 4], [2, 2], [0], [1], [64], [-1], [2, 99]):
            player.ask(f"kinds {kinds}", ListConfigResourcesRequest(resource_types=kinds))
    _forget_metrics(player)


@scenario(ProduceRequest, newest_only=True)
def settings_at_work(player: Player) -> None:
    """A setting that is changed counts for the next request."""
    topic = player.create("one")
    # Each with what is produced before and after the change.
    steps: tuple[tuple[str, str | None], ...] = (
        ("max.message.bytes", "150"), ("max.message.bytes", None), ("message.timestamp.type", "LogAppendTime"),
        ("message.timestamp.type", None), ("cleanup.policy", "compact"), ("cleanup.policy", None),
        ("compression.type", "zstd"), ("compression.type", "producer"), ("min.insync.replicas", "2"),
        ("message.timestamp.before.max.ms", "1000"), ("message.timestamp.before.max.ms", None),
        ("message.timestamp.after.max.ms", "0"), ("message.timestamp.after.max.ms", None),
    )  # fmt: skip
    for number, (key, value) in enumerate(steps):
        operation = DELETE if value is None else SET
        player.ask(f"{number} {key}", change((TOPIC, topic, [(key, operation, value)])), 1)
        _settle(player, topic)
        for label, data in (
            ("small", batch()),
            ("large", batch(record(bytes(200)))),
            ("no key", batch(record(key=None))),
            ("packed", batch(record(b"z" * 90), record(at=3), codec=Codec.GZIP)),
        ):
            player.ask(f"{number} {label}", produce(player, (topic, 0, data)))
    player.records_by_content = True
    player.ask("stored", stored(player, topic), 11)

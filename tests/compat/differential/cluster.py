"""ApiVersions, DescribeCluster, DescribeQuorum, DescribeLogDirs, UpdateFeatures, GetTelemetrySubscriptions."""

from __future__ import annotations

import struct
import uuid

from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, record, write
from tests.support.raw import CLOSED


@scenario(ApiVersionsRequest)
def api_versions(player: Player) -> None:
    answer = player.quietly(ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"))
    plain = player.plain(answer)
    ranges = {row["api_key"]: (row["min_version"], row["max_version"]) for row in plain.pop("api_keys")}
    player.keep("ranges", {str(key): versions for key, versions in ranges.items()})
    player.keep("features", plain)
    if player.version >= 3:
        for name, software in (
            ("", ""),
            ("a", ""),
            ("a b", "1"),
            ("-a", "1"),
            ("a.b-c", "1.2-x"),
            ("a", "1-"),
            ("ä", "1"),
        ):
            answer = player.quietly(
                ApiVersionsRequest(client_software_name=name, client_software_version=software)
            )
            player.keep(f"{name!r} {software!r}", answer.error_code)
            if answer.error_code:
                player.keep(f"{name!r} {software!r} whole", player.plain(answer))


@scenario(ApiVersionsRequest, since=3)
def tags(player: Player) -> None:
    """Unknown tagged fields are accepted, in any number and order."""
    for name, fields in {
        "unknown": b"\1\5\1x",
        "twice": b"\2\5\1x\5\1y",
        "out of order": b"\2\7\1x\5\1y",
        "empty": b"\1\5\0",
        "too long": b"\1\5\x7fx",
        "too many": b"\x7f\5\1x",
    }.items():
        header = struct.pack(">hhih", 18, player.version, 9, 3) + b"raw\0"
        player.client.send_frame(header + b"\2a\0021" + fields)
        answer = player.client.read(18, player.version, ApiVersionsResponse, 9)
        player.keep(name, repr(answer) if answer is CLOSED else answer.error_code)
        if answer is CLOSED:
            player.reconnect()


@scenario(DescribeClusterRequest)
def describe_cluster(player: Player) -> None:
    player.ask("plain", DescribeClusterRequest())
    player.ask("operations", DescribeClusterRequest(include_cluster_authorized_operations=True))
    if player.version >= 1:
        for kind in (-1, 0, 1, 2, 3):
            player.ask(f"endpoints {kind}", DescribeClusterRequest(endpoint_type=kind))
    if player.version >= 2:
        player.ask("fenced", DescribeClusterRequest(include_fenced_brokers=True))
        player.ask("fenced controllers", DescribeClusterRequest(endpoint_type=2, include_fenced_brokers=True))


@scenario(DescribeQuorumRequest)
def describe_quorum(player: Player) -> None:
    def ask(label: str, *topics: tuple[str, list[int]]) -> None:
        asked = [
            TopicData(topic_name=name, partitions=[PartitionData(partition_index=n) for n in indexes])
            for name, indexes in topics
        ]
        answer = player.quietly(DescribeQuorumRequest(topics=asked))
        for topic in getattr(answer, "topics", ()):
            for partition in topic.partitions:
                hide_progress(partition)
        player.keep(label, player.plain(answer))

    own = "__cluster_metadata"
    ask("the metadata", (own, [0]))
    ask("nothing")
    ask("no partition", (own, []))
    ask("another partition", (own, [1]))
    ask("two partitions", (own, [0, 1]))
    ask("twice", (own, [0]), (own, [0]))
    ask("another topic", ("nowhere", [0]))
    ask("both", (own, [0]), ("nowhere", [0]))


def hide_progress(partition: object) -> None:
    """Offsets and epoch of the metadata log are each cluster's own; that they are there is not."""
    for name in ("high_watermark", "leader_epoch"):
        setattr(partition, name, min(1, getattr(partition, name)))
    for replica in (*partition.current_voters, *partition.observers):  # type: ignore[attr-defined]
        replica.log_end_offset = min(1, replica.log_end_offset)


@scenario(DescribeLogDirsRequest)
def describe_log_dirs(player: Player) -> None:
    topic, empty = player.create("one", 2), player.create("empty")
    write(player, topic, batch(), batch(record(bytes(1_000))))

    def ask(label: str, *topics: tuple[str, list[int]]) -> None:
        asked = [DescribableLogDirTopic(topic=name, partitions=partitions) for name, partitions in topics]
        answer = player.quietly(DescribeLogDirsRequest(topics=asked))
        player.keep(label, _plain_dirs(player, answer))

    ask("nothing")
    ask("one", (topic, [0]))
    ask("both", (topic, [1, 0]), (empty, [0]))
    ask("no partition", (topic, []))
    ask("unknown", (topic, [0, 9, -1]), (player.topic("nowhere"), [0]))
    ask("twice", (topic, [0, 0]), (topic, [0]))
    ask("bad name", ("a/b", [0]))
    ask("the metadata", ("__cluster_metadata", [0]))
    everything = player.quietly(DescribeLogDirsRequest(topics=None))
    for result in everything.results:
        result.topics = [one for one in result.topics if one.name.startswith(player.prefix)]
    player.keep("all", _plain_dirs(player, everything))


@scenario(AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(player: Player) -> None:
    """With one directory nothing can be moved, but requests are checked."""
    topic = player.create("one", 2)
    everything = player.quietly(DescribeLogDirsRequest(topics=None), 4)
    here = everything.results[0].log_dir

    def ask(label: str, *dirs: tuple[str, str, list[int]]) -> None:
        wanted = [
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=indexes)])
            for path, name, indexes in dirs
        ]
        player.ask(label, AlterReplicaLogDirsRequest(dirs=wanted))

    ask("nothing")
    ask("where it is", (here, topic, [0, 1]))
    ask("no such directory", ("/nowhere", topic, [0]))
    ask("relative", ("data", topic, [0]))
    ask("with a slash", (f"{here}/", topic, [0]))
    ask("unknown topic", (here, player.topic("nowhere"), [0]))
    ask("unknown topic and directory", ("/nowhere", player.topic("nowhere"), [0]))
    ask("unknown partition", (here, topic, [7, -1]))
    ask("bad name", (here, "a/b", [0]))
    ask("long name", (here, "l" * 230, [0]))
    ask("the metadata", (here, "__cluster_metadata", [0]))
    ask("twice", ("/nowhere", topic, [0]), (here, topic, [0, 0]))
    ask("no partition", (here, topic, []))


def _plain_dirs(player: Player, answer: object) -> object:
    for result in getattr(answer, "results", ()):
        result.log_dir = "a path" if result.log_dir.startswith("/") else result.log_dir
        for name in ("total_bytes", "usable_bytes"):
            setattr(result, name, min(1, getattr(result, name)))
    return player.plain(answer)


@scenario(UpdateFeaturesRequest)
def update_features(player: Player) -> None:
    def ask(label: str, *updates: FeatureUpdateKey, **options: bool | int) -> None:
        player.ask(label, UpdateFeaturesRequest(feature_updates=list(updates), **options))

    def to(feature: str, level: int, kind: int = 1) -> FeatureUpdateKey:
        if player.version == 0:
            return FeatureUpdateKey(feature=feature, max_version_level=level, allow_downgrade=kind > 1)
        return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)

    ask("nothing")
    ask("as it is", to("metadata.version", 30))
    ask("unknown feature", to("no.such.feature", 1))
    ask("unknown feature to zero", to("no.such.feature", 0))
    ask("empty name", to("", 1))
    ask("too high", to("metadata.version", 99))
    ask("too high, group", to("group.version", 9))
    ask("negative", to("metadata.version", -1))
    ask("twice", to("group.version", 1), to("group.version", 1))
    ask("down without leave", to("metadata.version", 29))
    ask("down without leave, group", to("group.version", 0))
    ask("one good, one bad", to("group.version", 1), to("transaction.version", 99))
    ask("several as they are", to("group.version", 1), to("transaction.version", 2))
    ask("no time", to("group.version", 1), timeout_ms=0)
    if player.version >= 1:
        for kind in (-1, 0, 1, 2, 3, 4):
            for feature, level in (
                ("metadata.version", 29),
                ("metadata.version", 30),
                ("metadata.version", 31),
                ("metadata.version", 7),
                ("metadata.version", 0),
                ("group.version", 0),
                ("group.version", 1),
                ("group.version", 2),
                ("kraft.version", 0),
                ("kraft.version", 1),
                ("transaction.version", 1),
                ("share.version", 0),
                ("eligible.leader.replicas.version", 0),
                ("streams.version", 0),
            ):
                ask(f"try {feature} {level} kind {kind}", to(feature, level, kind), validate_only=True)
    after = player.quietly(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    player.keep("unchanged", player.plain(after)["finalized_features"])


@scenario(GetTelemetrySubscriptionsRequest)
def telemetry(player: Player) -> None:
    for label, instance in (("new", 0), ("known", 0x1234), ("reserved", 1)):
        answer = player.quietly(GetTelemetrySubscriptionsRequest(client_instance_id=uuid.UUID(int=instance)))
        answer.subscription_id = 1 if answer.subscription_id else 0
        player.keep(label, player.plain(answer))

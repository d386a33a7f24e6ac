"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from ottla.records.compression import Codec
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.records import BASE, batch, record, write

SENTINELS = range(-9, 1)


def list_of(
    player: Player, *parts: tuple[str, int, int], epoch: int = -1, replica: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index, timestamp in parts:
        entry = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
        entry.partitions.append(
            ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        )
    asked = ListOffsetsRequest(replica_id=replica, topics=list(topics.values()), timeout_ms=1_000)
    if player.version >= 2:
        asked.isolation_level = isolation
    return asked


@scenario(ListOffsetsRequest)
def list_offsets(player: Player) -> None:
    topics = {
        "empty": player.create("empty"),
        "one": player.create("one"),
        "many": player.create("many"),
        "compacted": player.create("compacted", cleanup_policy="compact"),
        "packed": player.create("packed"),
        "backwards": player.create("backwards"),
        "stamped": player.create("stamped", message_timestamp_type="LogAppendTime"),
        "segments": player.create("segments", segment_bytes="1048576"),
        "cut": player.create("cut"),
        "timeless": player.create("timeless"),
    }
    rows = [record(at=n * 10) for n in (0, 1, 1, 5, 5, 3)]
    write(player, topics["one"], batch(record(at=10)))
    write(player, topics["many"], batch(*rows[:3]), batch(*rows[3:]), batch(record(at=20), record(at=50)))
    write(player, topics["compacted"], batch(*rows), batch(*rows))
    write(player, topics["packed"], batch(*rows, codec=Codec.GZIP), batch(*rows, codec=Codec.ZSTD))
    write(player, topics["backwards"], *[batch(record(at=n * 10)) for n in (9, 7, 8, 9, 1)])
    write(player, topics["stamped"], batch(*rows))
    write(player, topics["segments"], *[batch(record(bytes(600_000), at=n * 10)) for n in (0, 3, 1, 3)])
    write(player, topics["cut"], batch(*rows[:3]), batch(*rows[3:]))
    write(player, topics["timeless"], batch(*[one._replace(timestamp=-1) for one in rows[:2]]))
    cut = DeleteRecordsTopic(
        name=topics["cut"], partitions=[DeleteRecordsPartition(partition_index=0, offset=4)]
    )
    player.quietly(DeleteRecordsRequest(topics=[cut], timeout_ms=10_000), 2)
    for name, topic in topics.items():
        for sentinel in SENTINELS:
            player.ask(f"{name} at {sentinel}", list_of(player, (topic, 0, sentinel)))
        for at in (-1, 0, 1, 10, 11, 30, 49, 50, 51, 90, 91, 1_000):
            player.ask(f"{name} at time {at}", list_of(player, (topic, 0, BASE + at)))
    many = topics["many"]
    player.ask("nothing", list_of(player))
    player.ask("beyond", list_of(player, (many, 7, -1), (many, 0, -1), (many, -1, -1)))
    player.ask("unknown topic", list_of(player, (player.topic("nowhere"), 0, -1)))
    player.ask("bad name", list_of(player, ("a/b", 0, -1), ("", 0, -1)))
    player.ask("twice", list_of(player, (many, 0, -1), (many, 0, -2)))
    player.ask("twice and another", list_of(player, (many, 0, -1), (many, 0, -1), (topics["one"], 0, -2)))
    for replica in (-2, -3, 1, 7):
        player.ask(f"as replica {replica}", list_of(player, (many, 0, -1), replica=replica))
    if player.version >= 2:
        for sentinel in (-1, -2, -3, BASE):
            player.ask(f"committed {sentinel - BASE}", list_of(player, (many, 0, sentinel), isolation=1))
        player.ask("isolation 9", list_of(player, (many, 0, -1), isolation=9))
    if player.version >= 4:
        for epoch in (-2, 0, 1, 9):
            player.ask(f"epoch {epoch}", list_of(player, (many, 0, -1), epoch=epoch))


def epoch_ends(*parts: tuple[str, int, int, int], replica: int = -1) -> OffsetForLeaderEpochRequest:
    """Where epochs end: (topic, partition, epoch, epoch the client believes in)."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for name, index, epoch, current in parts:
        entry = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        entry.partitions.append(
            OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
        )
    return OffsetForLeaderEpochRequest(replica_id=replica, topics=list(topics.values()))


@scenario(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(player: Player) -> None:
    empty, many = player.create("empty"), player.create("many")
    write(player, many, batch(record(), record()), batch())

    def ask(label: str, *parts: tuple[str, int, int, int], replica: int = -1) -> None:
        player.ask(label, epoch_ends(*parts, replica=replica))

    ask("nothing")
    for epoch in (-2, -1, 0, 1, 99):
        ask(f"empty {epoch}", (empty, 0, epoch, -1))
        ask(f"many {epoch}", (many, 0, epoch, -1))
        ask(f"many, current {epoch}", (many, 0, 0, epoch))
    ask("beyond", (many, 5, 0, -1), (many, -1, 0, -1), (many, 0, 0, -1))
    ask("unknown", (player.topic("nowhere"), 0, 0, -1))
    ask("bad name", ("a/b", 0, 0, -1))
    for replica in (-2, 1, 9):
        ask(f"as replica {replica}", (many, 0, 0, -1), replica=replica)

"""Produce, and what is stored by it; DescribeProducers, InitProducerId, DeleteRecords."""

from __future__ import annotations

import uuid
from typing import Any

import cramjam

from ottla.base.ids import ZERO_UUID
from ottla.records.builder import NewRecord, build_batch, encode_records
from ottla.records.compression import Codec, compress
from ottla.records.record import Record
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player, now_ms
from tests.support.bad_input import odd_batch, patched

UNKNOWN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")
DAY = 86_400_000
# Old enough to be no "now" in a transcript, young enough for records and their producers to be kept.
BASE = now_ms() - DAY // 2


def record(value: bytes | None = b"v", key: bytes | None = b"k", at: int = 0, **headers: bytes) -> NewRecord:
    return NewRecord(key, value, tuple(headers.items()), BASE + at)


def batch(*records: NewRecord, **options: Any) -> bytes:
    return build_batch(list(records) or [record()], **options)


def produce(
    player: Player, *parts: tuple[str, int, bytes | None], acks: int = -1, topic_id: uuid.UUID | None = None
) -> ProduceRequest:
    """A request for partitions (topic, index, records), by id where the version wants ids."""
    topics: dict[str, TopicProduceData] = {}
    for topic, index, data in parts:
        entry = topics.get(topic)
        if entry is None:
            known = topic_id if topic_id is not None else _id(player, topic)
            entry = topics[topic] = TopicProduceData(name=topic, topic_id=known, partition_data=[])
        entry.partition_data.append(PartitionProduceData(index=index, records=data))
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=list(topics.values()))


def _id(player: Player, topic: str) -> uuid.UUID:
    return next((key for key, name in player.names.items() if name == topic), UNKNOWN_ID)


def write(player: Player, topic: str, *batches: bytes, partition: int = 0) -> None:
    """Append, without it being compared."""
    for data in batches:
        answer = player.quietly(produce(player, (topic, partition, data)), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def stored(player: Player, topic: str, offset: int = 0, partition: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24)
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])], max_bytes=1 << 24)


@scenario(ProduceRequest)
def produce_plain(player: Player) -> None:
    topic = player.create("plain", 3)

    def put(label: str, *parts: tuple[str, int, bytes | None], **options: Any) -> None:
        player.ask(label, produce(player, *parts, **options))

    put("one", (topic, 0, batch()))
    put("acks 1", (topic, 0, batch()), acks=1)
    put("three records", (topic, 0, batch(record(), record(at=5), record(None, at=3))))
    put("headers", (topic, 0, batch(record(h=b"x", g=b""))))
    put("three partitions", (topic, 2, batch()), (topic, 0, batch()), (topic, 1, batch()))
    put("one bad of two", (topic, 0, batch()), (topic, 7, batch()))
    put("negative partition", (topic, -1, batch()))
    put("unknown topic", (player.topic("nowhere"), 0, batch()))
    put("unknown and known topic", (player.topic("nowhere"), 0, batch()), (topic, 1, batch()))
    put("the same partition twice", (topic, 1, batch(record(b"first"))), (topic, 1, batch(record(b"second"))))
    put("acks 3", (topic, 0, batch()), acks=3)
    put("no topics")
    put("two batches", (topic, 0, batch() + batch()))
    put("no bytes", (topic, 0, b""))
    put("wrong CRC", (topic, 0, patched(batch(), 17, b"\0\0\0\0", crc=False)))
    put("records count", (topic, 0, odd_batch(records_count=2, last_offset_delta=1)))
    put("too old", (topic, 0, batch(record(at=-400 * DAY), record())))
    put("too new", (topic, 0, batch(record(), record(at=3 * DAY), record(), record(at=4 * DAY))))
    put("max timestamp wrong", (topic, 0, odd_batch(base_timestamp=BASE, max_timestamp=BASE + 77)))
    put("no timestamp", (topic, 0, odd_batch(base_timestamp=-1, max_timestamp=-1)))
    put(
        "leader epoch of its own",
        (topic, 0, odd_batch(leader_epoch=55, base_timestamp=BASE, max_timestamp=BASE)),
    )
    put("attribute bits", (topic, 0, odd_batch(attributes=0x48, base_timestamp=BASE, max_timestamp=BASE)))
    for codec in Codec:
        if codec is not Codec.ZSTD or player.version >= 7:
            put(
                f"{codec.name}",
                (topic, 2, batch(*[record(b"z" * 200, at=n) for n in range(20)], codec=codec)),
            )
    if player.version < 7:
        put("zstd too early", (topic, 2, batch(codec=Codec.ZSTD)))
    if player.version >= 13:
        put("no topic id", (topic, 0, batch()), topic_id=ZERO_UUID)
    for partition in range(3):
        player.ask(f"stored in {partition}", stored(player, topic, partition=partition), 11)


@scenario(ProduceRequest)
def produce_to_settings(player: Player) -> None:
    compacted = player.create("compacted", cleanup_policy="compact")
    appended = player.create("appended", message_timestamp_type="LogAppendTime")
    small = player.create("small", max_message_bytes="200")
    strict = player.create(
        "strict", message_timestamp_after_max_ms="1000", message_timestamp_before_max_ms="1000"
    )
    two_in_sync = player.create("two-in-sync", min_insync_replicas="2")

    def put(label: str, topic: str, data: bytes | None, **options: Any) -> None:
        player.ask(label, produce(player, (topic, 0, data), **options))

    put("no keys", compacted, batch(record(key=None), record(), record(key=None)))
    put("keys", compacted, batch())
    put("tombstone", compacted, batch(record(None)))
    put("no key packed", compacted, batch(record(), record(key=None), codec=Codec.GZIP))
    put("append time", appended, batch(record(), record(at=9)))
    put("append time, packed", appended, batch(record(), record(at=9), codec=Codec.LZ4))
    put("append time, far future", appended, batch(record(at=900 * DAY)))
    put("append time, no time", appended, odd_batch(base_timestamp=-1, max_timestamp=-1))
    put("too large", small, batch(record(bytes(300))))
    put("small enough", small, batch())
    put("too large but packed", small, batch(record(bytes(3000)), codec=Codec.GZIP))
    put("too old for it", strict, batch())
    put("too old, packed", strict, batch(record(), record(at=1), codec=Codec.SNAPPY))
    put("in sync capped", two_in_sync, batch())
    put("in sync, acks 1", two_in_sync, batch(), acks=1)
    for topic in (compacted, appended, small, strict, two_in_sync):
        player.ask(f"stored in {topic.removeprefix(player.prefix)}", stored(player, topic), 11)


@scenario(ProduceRequest, newest_only=True)
def produce_recompressed(player: Player) -> None:
    player.records_by_content = True
    for wanted in ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"):
        topic = player.create(wanted, compression_type=wanted)
        for codec in Codec:
            data = batch(record(b"a" * 50, a=b"1"), record(b"b" * 50, at=7), record(None, at=3), codec=codec)
            player.ask(f"{codec.name} to {wanted}", produce(player, (topic, 0, data)))
        numbered = batch(
            *[record(b"n", at=n) for n in range(4)], producer_id=900, producer_epoch=0, base_sequence=0
        )
        player.ask(f"numbered to {wanted}", produce(player, (topic, 0, numbered)))
        player.ask(
            f"offsets in {wanted}", produce(player, (topic, 0, odd_batch(attributes=1, section=b"junk")))
        )
        player.ask(f"stored in {wanted}", stored(player, topic), 11)


def _junk(magic: int, *, length: int = 80, flags: int = 0x10, size: int = 92) -> bytes:
    """Bytes with a batch's length, magic and attributes where a batch has them."""
    data = bytearray(size)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    data[16] = magic & 0xFF
    data[22] = flags
    return bytes(data)


@scenario(ProduceRequest)
def produce_junk(player: Player) -> None:
    """Bytes that are no batch of a known format: checked before topics, acks and transactions."""
    topic = player.create("junk", 3)
    nowhere = player.topic("nowhere")
    for flags in (0, 0x10):
        for magic in (0, 1, 2, 3, 127, -1):
            data = _junk(magic, flags=flags)
            player.ask(f"magic {magic}, flags {flags:#x}", produce(player, (topic, 0, data)))
        for length in (-1, 0, 13, 14, 80, 81):
            data = _junk(2, length=length, flags=flags)
            player.ask(f"length {length}, flags {flags:#x}", produce(player, (topic, 0, data)))
    for size in (0, 11, 12, 16, 17, 22, 23, 60):
        player.ask(f"{size} bytes, magic 3", produce(player, (topic, 0, _junk(3)[:size])))
        player.ask(f"{size} bytes, magic 2", produce(player, (topic, 0, _junk(2)[:size])))
    good, junk, transactional = batch(), _junk(3), _junk(2)
    player.ask("with a good one", produce(player, (topic, 0, good), (topic, 1, junk)))
    player.ask("before a good one", produce(player, (topic, 0, junk), (topic, 1, good)))
    player.ask("acks 3", produce(player, (topic, 0, junk), acks=3))
    player.ask("acks 1", produce(player, (topic, 0, junk), acks=1))
    player.ask("unknown topic", produce(player, (nowhere, 0, junk)))
    player.ask("unknown topic, length 1", produce(player, (nowhere, 0, _junk(2, length=1))))
    player.ask("before a transactional one", produce(player, (topic, 0, junk), (topic, 1, transactional)))
    player.ask("after a transactional one", produce(player, (topic, 0, transactional), (topic, 1, junk)))
    player.ask("behind a good batch", produce(player, (topic, 0, good + junk)))
    player.ask("stored", stored(player, topic), 11)


def _section(*deltas: int) -> bytes:
    return bytes(encode_records([Record(delta, delta * 3, b"k", b"v" * 40, ()) for delta in deltas]))


@scenario(ProduceRequest)
def produce_odd_insides(player: Player) -> None:
    """What only shows when a batch is taken apart."""
    plain, compacted = player.create("plain"), player.create("compacted", cleanup_policy="compact")
    packed = player.create("packed", compression_type="gzip")
    times = {"base_timestamp": BASE, "max_timestamp": BASE}
    three = {"records_count": 3, "last_offset_delta": 2} | times
    gzip, lz4 = {"attributes": 1}, {"attributes": 3}
    sections = {
        "in order": (_section(0, 1, 2), three),
        "jump": (_section(0, 1, 3), three),
        "jump, declared": (_section(0, 1, 3), three | {"last_offset_delta": 3}),
        "backwards": (_section(2, 1, 0), three),
        "equal": (_section(0, 0, 0), three),
        "one too many": (_section(0, 1, 2, 3), three),
        "one too few": (_section(0, 1), three),
        "bytes behind": (_section(0, 1, 2) + b"\0\0", three),
        "from one": (_section(1, 2, 3), three),
    }
    for name, (section, fields) in sections.items():
        for topic in (plain, compacted, packed):
            where = topic.removeprefix(player.prefix)
            data = odd_batch(section, **fields)
            player.ask(f"{name} in {where}", produce(player, (topic, 0, data)))
            data = odd_batch(bytes(compress(Codec.GZIP, section)), **fields, **gzip)
            player.ask(f"{name}, gzip, in {where}", produce(player, (topic, 0, data)))
    linked = bytes(cramjam.lz4.compress(_section(0, 1, 2)))
    player.ask("linked lz4", produce(player, (plain, 0, odd_batch(linked, **three, **lz4))))
    cut = bytes(compress(Codec.GZIP, _section(0, 1, 2)))[:-6]
    player.ask("gzip cut short", produce(player, (plain, 0, odd_batch(cut, **three, **gzip))))
    two = bytes(compress(Codec.GZIP, _section(0, 1))) + bytes(compress(Codec.GZIP, _section(2)))
    player.ask("gzip of two members", produce(player, (plain, 0, odd_batch(two, **three, **gzip))))
    for bits in (0x20, 0x10, 0x40, 0x80, 0x100, 0x7F00):
        player.ask(f"attributes {bits:#x}", produce(player, (plain, 0, odd_batch(attributes=bits, **times))))
    for field_name in ("base_offset", "producer_epoch", "base_sequence"):
        data = odd_batch(**times, **{field_name: 7})
        player.ask(f"{field_name} 7", produce(player, (plain, 0, data)))
    player.records_by_content = True
    for topic in (compacted, packed):
        player.ask(f"stored in {topic.removeprefix(player.prefix)}", stored(player, topic), 11)


def numbered(producer_id: int, sequence: int, epoch: int = 0, count: int = 1, at: int = 0) -> bytes:
    return batch(
        *[record(at=at) for _ in range(count)],
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip


@scenario(ProduceRequest)
def produce_numbered(player: Player) -> None:
    topic = player.create("numbered", 2)

    def put(label: str, data: bytes, partition: int = 0, acks: int = -1) -> None:
        player.ask(label, produce(player, (topic, partition, data), acks=acks))

    for number in range(7):
        put(f"in order {number}", numbered(100, number * 2, count=2, at=number))
    for number in range(7):
        put(f"again {number}", numbered(100, number * 2, count=2, at=number))
    put("again with acks 1", numbered(100, 12, count=2), acks=1)
    put("half of the last", numbered(100, 12))
    put("overlapping", numbered(100, 13, count=2))
    put("gap", numbered(100, 20))
    put("other partition", numbered(100, 14), partition=1)
    put("old epoch unknown there", numbered(100, 0, epoch=3), partition=1)
    put("older epoch", numbered(100, 1, epoch=2), partition=1)
    put("newer epoch not at zero", numbered(100, 5, epoch=4), partition=1)
    put("newer epoch", numbered(100, 0, epoch=5), partition=1)
    put("duplicate of older epoch", numbered(100, 0, epoch=3), partition=1)
    put("start high", numbered(101, 77))
    put("wrap", numbered(102, (1 << 31) - 2, count=4))
    put("after wrap", numbered(102, 2))
    put("after wrap again", numbered(102, 2))
    put("no sequence", odd_batch(producer_id=5, producer_epoch=0))
    put("no epoch", odd_batch(producer_id=5, base_sequence=0))
    player.ask(
        "producers", DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 1])]), 0
    )
    for partition in range(2):
        player.ask(f"stored in {partition}", stored(player, topic, partition=partition), 11)


@scenario(DescribeProducersRequest)
def describe_producers(player: Player) -> None:
    topic = player.create("one", 2)
    write(player, topic, numbered(1, 0, count=3), numbered(2, 9, epoch=4, at=8), batch())

    def describe(label: str, *topics: tuple[str, list[int]]) -> None:
        asked = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
        player.ask(label, DescribeProducersRequest(topics=asked))

    describe("nothing")
    describe("both", (topic, [0, 1]))
    describe("no partition", (topic, []))
    describe("unknown partition", (topic, [0, 5, -1]))
    describe("twice", (topic, [0, 0]))
    describe("unknown topic", (player.topic("nowhere"), [0]))
    describe("bad names", ("", [0]), ("a/b", [0]))


@scenario(InitProducerIdRequest, until=5)
def init_producer_id(player: Player) -> None:
    fresh = InitProducerIdRequest(transactional_id=None)
    # Right after its start Kafka has no ids to give yet, and says so.
    player.until(lambda: player.quietly(fresh).error_code != 14)
    for number in range(3):
        player.ask(
            f"new {number}", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=number - 1)
        )
    player.ask(
        "empty transactional id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    )
    if player.version >= 3:
        for producer_id, epoch in ((0, 0), (5, 3), (5, -1), (-1, 5), (-2, -2), (1 << 40, 32_767)):
            player.ask(
                f"with id {producer_id} and epoch {epoch}",
                InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch),
            )


@scenario(DeleteRecordsRequest)
def delete_records(player: Player) -> None:
    topic = player.create("one", 2)
    compacted = player.create("compacted", cleanup_policy="compact")
    both = player.create("both", cleanup_policy="compact,delete")
    for name in (topic, compacted, both):
        write(player, name, *[batch(record(), record(), record()) for _ in range(4)])

    def delete(label: str, *parts: tuple[str, int, int], timeout_ms: int = 10_000) -> None:
        topics: dict[str, DeleteRecordsTopic] = {}
        for name, index, offset in parts:
            entry = topics.setdefault(name, DeleteRecordsTopic(name=name, partitions=[]))
            entry.partitions.append(DeleteRecordsPartition(partition_index=index, offset=offset))
        player.ask(label, DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms))

    delete("nothing")
    for offset in (0, 1, 4, 4, 2, 12, 13, -2):
        delete(f"to {offset}", (topic, 0, offset))
    delete("to the end", (topic, 0, -1))
    delete("of an empty one", (topic, 1, 0))
    delete("of an empty one to the end", (topic, 1, -1))
    delete("of an empty one beyond", (topic, 1, 1))
    delete("unknown partition", (topic, 0, 12), (topic, 5, 0), (topic, -1, 0))
    delete("unknown topic", (player.topic("nowhere"), 0, 0))
    delete("bad name", ("a/b", 0, 0))
    delete("compacted", (compacted, 0, 2))
    delete("compacted and deleted", (both, 0, 2))
    delete("the cluster's own", ("__cluster_metadata", 0, 0))
    for name in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        player.quietly(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
        player.wait_for(name, 50)
        delete(f"{name}", (name, 0, 0), (name, 49, -1), (name, 50, 0), (name, -1, 0))
    delete("no time", (both, 0, 3), timeout_ms=0)
    for offset in (0, 3, 11, 12, 13):
        player.ask(f"fetch at {offset}", stored(player, topic, offset), 11)
        player.ask(f"fetch both at {offset}", stored(player, both, offset), 11)
    write(player, topic, batch())
    player.ask("written after", stored(player, topic, 12), 11)

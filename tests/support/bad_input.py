"""Bad and odd requests, and what Apache Kafka 4.3.1 answers to each.

A row is a name, a function that plays it on a fresh connection and returns what a client could see, and that
outcome. The same rows run against Ottla (integration) and against Apache Kafka itself (compat), so that the
expectations are its answers, not our opinion. The few rows in which we differ on purpose name both outcomes.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.records.batch import compute_crc
from ottla.records.builder import NewRecord, assemble_batch, build_batch, encode_records
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.raw import CLOSED, Closed, RawClient

NOW = 1_760_000_000_000
PLAIN, COMPACTED, SMALL = "bad-input-plain", "bad-input-compacted", "bad-input-small"
COLLIDING = "bad_input"
Outcome = object
Play = Callable[[RawClient], Outcome]


@dataclass(frozen=True)
class Row:
    name: str
    play: Play
    kafka: Outcome
    ottla: Outcome = field(default=None)

    @property
    def expected(self) -> Outcome:
        return self.kafka if self.ottla is None else self.ottla


def prepare(client: RawClient) -> None:
    """The topics that the rows use; they may exist already."""
    topics = [
        CreatableTopic(name=PLAIN, num_partitions=1, replication_factor=1),
        CreatableTopic(
            name=COMPACTED,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        ),
        CreatableTopic(
            name=SMALL,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="max.message.bytes", value="200")],
        ),
    ]
    topics.append(CreatableTopic(name=COLLIDING, num_partitions=1, replication_factor=1))
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7, CreateTopicsResponse)
    assert not isinstance(answer, Closed)
    assert {topic.error_code for topic in answer.topics} <= {0, 36}


# Frames


def _request(api_key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
    header = struct.pack(">hhih", api_key, version, 7, 3) + b"raw"
    return header + (b"\0" if flexible else b"") + body


def bytes_then_read(data: bytes) -> Play:
    """Send bytes as they are; the outcome is the length of an answer, or CLOSED."""

    def play(client: RawClient) -> Outcome:
        client.send(data)
        return _kind(client)

    return play


def frame_then_read(payload: bytes) -> Play:
    return bytes_then_read(struct.pack(">i", len(payload)) + payload)


def _kind(client: RawClient) -> Outcome:
    answer = client.read_frame()
    return CLOSED if isinstance(answer, Closed) else "answered"


def _newest_api_versions(client: RawClient) -> Outcome:
    client.send_frame(_request(18, 99, flexible=True))
    answer = client.read(18, 0, ApiVersionsResponse, 7)
    if isinstance(answer, Closed):
        return CLOSED
    again = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    alive = not isinstance(again, Closed) and again.error_code == 0
    return answer.error_code, [key.api_key for key in answer.api_keys], alive


def _metadata_of(name: bytes) -> Play:
    body = struct.pack(">ih", 1, len(name)) + name + b"\0"

    def play(client: RawClient) -> Outcome:
        client.send_frame(_request(3, 4, body))
        answer = client.read(3, 4, MetadataResponse, 7)
        return CLOSED if isinstance(answer, Closed) else answer.topics[0].error_code

    return play


def _metadata_of_new(name: str) -> Play:
    """The error code of a topic that may be created."""

    def play(client: RawClient) -> Outcome:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        answer = client.ask(request, 9, MetadataResponse)
        return CLOSED if isinstance(answer, Closed) else answer.topics[0].error_code

    return play


FRAMES = [
    Row("frame size negative", bytes_then_read(struct.pack(">i", -1)), CLOSED),
    Row("frame size above socket.request.max.bytes", bytes_then_read(struct.pack(">i", 104_857_601)), CLOSED),
    Row("HTTP on the Kafka port", bytes_then_read(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), CLOSED),
    Row("TLS hello on a plain port", bytes_then_read(bytes.fromhex("16030100f8010000f40303") + bytes(64)), CLOSED),
    Row("frame of no bytes", bytes_then_read(struct.pack(">i", 0)), CLOSED),
    Row("header cut short", frame_then_read(struct.pack(">hh", 18, 0)), CLOSED),
    Row("body cut short", frame_then_read(_request(3, 4, struct.pack(">i", 1))), CLOSED),
    Row("trailing bytes", frame_then_read(_request(18, 0, b"junk")), "answered"),
    Row("unknown api key", frame_then_read(_request(999, 0)), CLOSED),
    Row("negative api key", frame_then_read(_request(-1, 0)), CLOSED),
    Row("unsupported version", frame_then_read(_request(3, 99, flexible=True)), CLOSED),
    Row("negative version", frame_then_read(_request(3, -1)), CLOSED),
    Row("Produce v2 though advertised", frame_then_read(_request(0, 2, struct.pack(">hii", 1, 1, 0))), CLOSED),
    Row("Metadata v4 without its last field", frame_then_read(_request(3, 4, struct.pack(">i", -1))), CLOSED),
    Row("ApiVersions in an unknown version", _newest_api_versions, (35, [18], True)),
    Row("array longer than the frame", frame_then_read(_request(3, 4, struct.pack(">ib", 1 << 30, 0))), CLOSED),
    Row("array of length -2 is null", frame_then_read(_request(3, 4, struct.pack(">ib", -2, 0))), "answered"),
    Row("boolean 7 is true", frame_then_read(_request(3, 4, struct.pack(">ib", -1, 7))), "answered"),
    Row("huge count of tags in the header",
        frame_then_read(struct.pack(">hhih", 18, 3, 7, -1) + b"\xff\xff\xff\xff\x07"), CLOSED),
    Row("varint of six bytes",
        frame_then_read(struct.pack(">hhih", 18, 3, 7, -1) + b"\xff\xff\xff\xff\xff\x01\x00"), CLOSED),
    Row("string of length -2", frame_then_read(_request(3, 4, struct.pack(">ihb", 1, -2, 0))), CLOSED),
    Row("null where none is allowed", frame_then_read(_request(3, 4, struct.pack(">ihb", 1, -1, 0))), CLOSED),
    Row("client id longer than the frame", frame_then_read(struct.pack(">hhih", 18, 0, 7, 30_000) + b"x"), CLOSED),
    Row("client id null", frame_then_read(struct.pack(">hhih", 18, 0, 7, -1)), "answered"),
    Row("client id of length -2", frame_then_read(struct.pack(">hhih", 18, 0, 7, -2)), "answered"),
    Row("topic name not UTF-8", _metadata_of(b"\xff\xfe"), 17),
    Row("topic name with a slash", _metadata_of(b"a/b"), 17),
    Row("topic name leaving the directory", _metadata_of(b"a/../../x"), 17),
    Row("topic name with NUL", _metadata_of(b"a\0b"), 17),
    Row("topic name empty", _metadata_of(b""), 17),
    Row("topic name of two dots", _metadata_of(b".."), 17),
    Row("topic name of 250 characters", _metadata_of(b"a" * 250), 17),
    Row("topic name of the metadata log", _metadata_of_new("__cluster_metadata"), 3),
    Row("topic name that collides with another", _metadata_of_new(COLLIDING.replace("_", ".")), 3),
]  # fmt: skip


# Produce


def record(value: bytes = b"v", key: bytes | None = b"k", timestamp: int = NOW) -> NewRecord:
    return NewRecord(key, value, (), timestamp)


def batch(*records: NewRecord, **options: object) -> bytes:
    return build_batch(list(records) or [record()], **options)  # type: ignore[arg-type]


def odd_batch(section: bytes | None = None, **fields: int) -> bytes:
    """A batch whose header says what the fields say, with a right CRC."""
    header = {
        "base_offset": 0, "leader_epoch": -1, "attributes": 0, "last_offset_delta": 0,
        "base_timestamp": NOW, "max_timestamp": NOW, "producer_id": -1, "producer_epoch": -1,
        "base_sequence": -1, "records_count": 1,
    }  # fmt: skip
    header.update(fields)
    if section is None:
        section = bytes(encode_records([Record(0, 0, b"k", b"v", ())]))
    return bytes(assemble_batch(section, **header))


def patched(data: bytes, position: int, replacement: bytes, *, crc: bool = True) -> bytes:
    out = bytearray(data)
    out[position : position + len(replacement)] = replacement
    if crc:
        out[17:21] = struct.pack(">I", compute_crc(out))
    return bytes(out)


def produce(data: bytes | None, *, topic: str = PLAIN, version: int = 9, acks: int = -1, partition: int = 0,
            transactional_id: str | None = None, text: bool = False) -> Play:  # fmt: skip
    """The error code of one partition's response, and whether there is a text if that was asked for."""

    def play(client: RawClient) -> Outcome:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=5_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=partition, records=data)]
                )
            ],
        )
        answer = client.ask(request, version, ProduceResponse)
        if isinstance(answer, Closed):
            return CLOSED
        partition_response = answer.responses[0].partition_responses[0]
        if text:
            return partition_response.error_code, bool(partition_response.error_message)
        return partition_response.error_code

    return play


def produce_in_turn(*batches: bytes) -> Play:
    """The error codes of several produces on one connection."""

    def play(client: RawClient) -> Outcome:
        return [produce(data)(client) for data in batches]

    return play


def _identified(producer_id: int, sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    return batch(
        *[record() for _ in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


_TWO = encode_records([Record(0, 0, b"k", b"v", ()), Record(1, 0, b"k", b"v", ())])
_ONE = bytes(encode_records([Record(0, 0, b"k", b"v", ())]))
_INFLATING = batch(record(bytes(200 << 20)), codec=Codec.ZSTD)

PRODUCE = [
    Row("a good batch", produce(batch()), 0),
    Row("acks 2", produce(batch(), acks=2), 21),
    Row("acks 0 and an error", produce(b"", acks=0), CLOSED),
    Row("unknown topic", produce(batch(), topic="bad-input-nowhere"), 3),
    Row("unknown partition", produce(batch(), partition=9), 3),
    Row("negative partition", produce(batch(), partition=-1), 3),
    Row("no batch", produce(b""), 87),
    Row("half a header", produce(batch()[:30]), 87),
    Row("half a batch", produce(batch()[:-1]), 87),
    Row("two batches", produce(batch() + batch()), 87),
    Row("a few bytes behind a batch", produce(batch() + b"\0\0\0"), 0),
    Row("wrong CRC", produce(patched(batch(), 17, b"\0\0\0\0", crc=False)), 2),
    Row("magic 1", produce(patched(batch(), 16, b"\1")), 87),
    Row("magic 3", produce(patched(batch(), 16, b"\3")), 2),
    Row("length below a header", produce(patched(batch(), 8, struct.pack(">i", 10), crc=False)), 2),
    Row("magic 3 has a text", produce(patched(batch(), 16, b"\3"), text=True), (2, True)),
    Row("magic 3, looks transactional", produce(patched(patched(batch(), 22, b"\x10"), 16, b"\3")), 2),
    Row("magic 3, unknown topic", produce(patched(batch(), 16, b"\3"), topic="bad-input-nowhere"), 2),
    Row("magic 3, acks 2", produce(patched(batch(), 16, b"\3"), acks=2), 2),
    Row("magic 3, acks 0", produce(patched(batch(), 16, b"\3"), acks=0), CLOSED),
    Row("magic 1, looks transactional", produce(patched(patched(batch(), 22, b"\x10"), 16, b"\1")), 87),
    Row("magic 1 has no text", produce(patched(batch(), 16, b"\1"), text=True), (87, False)),
    Row("length below a header has a text",
        produce(patched(batch(), 8, struct.pack(">i", 10), crc=False), text=True), (2, True)),
    Row("count too high", produce(odd_batch(records_count=2, last_offset_delta=1)), 87),
    Row("count too low", produce(odd_batch(bytes(_TWO))), 87),
    Row("count zero", produce(odd_batch(b"", records_count=0, last_offset_delta=-1)), 87),
    Row("count negative", produce(odd_batch(records_count=-1)), 87),
    Row("last offset delta wrong", produce(odd_batch(last_offset_delta=5)), 87),
    Row("base offset not zero", produce(odd_batch(base_offset=17)), 87),
    Row("record longer than the batch", produce(odd_batch(b"\xff\x01" + _ONE[1:])), 87),
    Row("record shorter than its fields", produce(odd_batch(b"\x04" + _ONE[1:])), 87),
    Row("negative header count", produce(odd_batch(_ONE[:-1] + b"\x01")), 87),
    Row("huge header count", produce(odd_batch(_ONE[:-1] + b"\x7e")), 87),
    Row("control batch", produce(batch(control=True)), 87),
    Row("batch above max.message.bytes", produce(batch(record(bytes(300))), topic=SMALL), 10),
    Row("batch above the broker's limit", produce(batch(record(bytes(1_100_000)))), 10),
    Row("no key on a compacted topic", produce(batch(record(key=None)), topic=COMPACTED), 87),
    Row("zstd in Produce v6", produce(batch(codec=Codec.ZSTD), version=6), 76),
    Row("zstd in Produce v7", produce(batch(codec=Codec.ZSTD), version=7), 0),
    Row("codec 5", produce(odd_batch(attributes=5)), -1),
    Row("codec 7", produce(odd_batch(attributes=7)), -1),
    Row("gzip that is not", produce(odd_batch(attributes=1)), -1),
    Row("lz4 that is not", produce(odd_batch(attributes=3)), -1),
    Row("zstd that is not", produce(odd_batch(attributes=4)), -1),
    Row("200 MiB in a few KB of zstd", produce(_INFLATING), 0, 10),
    Row("timestamp a year ahead", produce(batch(record(timestamp=NOW + (1 << 40)))), 32),
    Row("timestamp -1", produce(batch(record(timestamp=-1))), 0),
    Row("LogAppendTime set by the client", produce(odd_batch(attributes=8)), 0),
    Row("producer id without sequence", produce(odd_batch(producer_id=5, producer_epoch=0)), 87),
    Row("sequence without producer id", produce(odd_batch(base_sequence=0)), 0),
    Row("producer id -5", produce(odd_batch(producer_id=-5)), 0),
    Row("gap in sequences", produce_in_turn(_identified(7_001, 0), _identified(7_001, 2)), [0, 45]),
    Row("the same batch again", produce_in_turn(_identified(7_002, 0), _identified(7_002, 0)), [0, 0]),
    Row("an older epoch", produce_in_turn(_identified(7_003, 0, 3), _identified(7_003, 1, 2)), [0, 47]),
    Row("a new epoch not at zero", produce_in_turn(_identified(7_004, 0), _identified(7_004, 1, 1)), [0, 45]),
    Row("an unknown producer at any sequence", produce(_identified(7_005, 1_000)), 0),
    Row("a batch the window forgot",
        produce_in_turn(*[_identified(7_006, n) for n in range(6)], _identified(7_006, 0)),
        [0] * 6 + [45]),
    Row("transactional batch without a transactional id",
        produce(batch(transactional=True, producer_id=7_007, producer_epoch=0, base_sequence=0)), 53),
]  # fmt: skip


# Fetch, ListOffsets


def fetch(offset: int = 0, *, version: int = 11, partition: int = 0, topic: str = PLAIN, session_id: int = 0,
          session_epoch: int = -1, leader_epoch: int = -1, max_bytes: int = 1 << 20) -> Play:  # fmt: skip
    """The request's error code, and the first partition's."""

    def play(client: RawClient) -> Outcome:
        wanted = FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = client.ask(request, version, FetchResponse)
        if isinstance(answer, Closed):
            return CLOSED
        partitions = [found for each in answer.responses for found in each.partitions]
        if not partitions:
            return answer.error_code
        first = partitions[0]
        return answer.error_code, first.error_code, first.high_watermark == -1

    return play


def _fetch_unknown_id(client: RawClient) -> Outcome:
    request = FetchRequest(
        max_wait_ms=0,
        topics=[FetchTopic(topic_id=uuid.UUID(int=77), partitions=[FetchPartition(partition_max_bytes=10)])],
        session_epoch=-1,
    )
    answer = client.ask(request, 13, FetchResponse)
    return CLOSED if isinstance(answer, Closed) else answer.responses[0].partitions[0].error_code


def list_offsets(*timestamps: int, version: int = 5, partition: int = 0) -> Play:
    def play(client: RawClient) -> Outcome:
        asked = [ListOffsetsPartition(partition_index=partition, timestamp=stamp) for stamp in timestamps]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=PLAIN, partitions=asked)])
        answer = client.ask(request, version, ListOffsetsResponse)
        if isinstance(answer, Closed):
            return CLOSED
        return [found.error_code for found in answer.topics[0].partitions]

    return play


FETCH = [
    Row("fetch at a negative offset", fetch(-5), (0, 1, True)),
    Row("fetch beyond the end", fetch(1 << 40), (0, 1, True)),
    Row("fetch of an unknown partition", fetch(partition=9), (0, 3, True)),
    Row("fetch of an unknown topic", fetch(topic="bad-input-nowhere"), (0, 3, True)),
    Row("fetch of an unknown topic id", _fetch_unknown_id, 100),
    Row("fetch in an unknown session", fetch(session_id=123_456_789, session_epoch=1), 70),
    Row("fetch with an older leader epoch", fetch(leader_epoch=-2), (0, 0, False)),
    Row("fetch with a newer leader epoch", fetch(leader_epoch=999), (0, 75, True)),
    Row("offsets: a partition twice", list_offsets(-1, -1), [42]),
    Row("offsets: an unknown partition", list_offsets(-1, partition=9), [3]),
    Row("offsets: a sentinel too new for the version", list_offsets(-3), [35]),
]


# Topics


def create(*topics: CreatableTopic, timeout_ms: int = 10_000, validate_only: bool = True) -> Play:
    """The error codes by name; nothing is created with `validate_only`."""

    def play(client: RawClient) -> Outcome:
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
        answer = client.ask(request, 5, CreateTopicsResponse)
        if isinstance(answer, Closed):
            return CLOSED
        return sorted(topic.error_code for topic in answer.topics)

    return play


def topic(
    name: str = "bad-input-new", partitions: int = 1, factor: int = 1, **configs: str | None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def _assigned(*assignments: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    return CreatableTopic(
        name="bad-input-new",
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assignments
        ],
    )


def grow(count: int, name: str = PLAIN) -> Play:
    def play(client: RawClient) -> Outcome:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
            timeout_ms=5_000,
            validate_only=True,
        )
        answer = client.ask(request, 3, CreatePartitionsResponse)
        return CLOSED if isinstance(answer, Closed) else [result.error_code for result in answer.results]

    return play


def delete(*names: str) -> Play:
    def play(client: RawClient) -> Outcome:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=5_000)
        answer = client.ask(request, 5, DeleteTopicsResponse)
        return CLOSED if isinstance(answer, Closed) else sorted(each.error_code for each in answer.responses)

    return play


def metadata_by_id(version: int) -> Play:
    def play(client: RawClient) -> Outcome:
        request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=uuid.UUID(int=99), name=None)])
        answer = client.ask(request, version, MetadataResponse)
        if isinstance(answer, Closed):
            return CLOSED
        return [each.error_code for each in answer.topics], len(answer.brokers)

    return play


TOPICS = [
    Row("create: fine", create(topic()), [0]),
    Row("create: name invalid", create(topic("a/../../x")), [17]),
    Row("create: name of one dot", create(topic(".")), [17]),
    Row("create: name too long", create(topic("a" * 250)), [17]),
    Row("create: exists", create(topic(PLAIN)), [36]),
    Row("create: name collides with another", create(topic(PLAIN.replace("-", "."))), [0]),
    Row("create: the same name twice", create(topic(), topic()), [42]),
    Row("create: no partitions", create(topic(partitions=0)), [37]),
    Row("create: a thousand million partitions", create(topic(partitions=1_000_000_000)), [44]),
    Row("create: negative partitions", create(topic(partitions=-2)), [37]),
    Row("create: no replicas", create(topic(factor=0)), [38]),
    Row("create: more replicas than brokers", create(topic(factor=2)), [38]),
    Row("create: unknown setting", create(topic(no_such_key="1")), [40]),
    Row("create: bad value", create(topic(retention_ms="soon")), [40]),
    Row("create: null value", create(topic(retention_ms=None)), [40]),
    Row("create: timeout 0", create(topic(), timeout_ms=0), [7]),
    Row("create: unknown broker assigned", create(_assigned((0, [99]))), [39]),
    Row("create: a broker twice in an assignment", create(_assigned((0, [1, 1]))), [39]),
    Row("create: assignment with a hole", create(_assigned((1, [1]))), [39]),
    Row("create: assignment and a count", create(_assigned((0, [1]), partitions=1)), [42]),
    Row("grow: fewer partitions", grow(1), [37]),
    Row("grow: no such topic", grow(4, "bad-input-nowhere"), [3]),
    Row("delete: no such topic", delete("bad-input-nowhere"), [3]),
    Row("delete: an invalid name", delete("a/b"), [3]),
    Row("metadata by unknown id", metadata_by_id(12), ([100], 1)),
    Row("metadata by id in v10", metadata_by_id(10), ([42], 0)),
]  # fmt: skip

ROWS = [*FRAMES, *PRODUCE, *FETCH, *TOPICS]

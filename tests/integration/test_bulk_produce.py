"""Bulk appends of Produce requests over a real socket: the same offsets, bytes and errors as the normal path."""

from __future__ import annotations

import struct

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.records.batch import iter_batches
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.record import iter_records
from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.clients import fresh
from tests.support.raw import Address, Closed, RawClient

NOW = 1_760_000_000_000
LONG_MAX = str((1 << 63) - 1)


def create(client: RawClient, **settings: str) -> str:
    topic = fresh("bulk")
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in settings.items()]
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
    answer = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7, CreateTopicsResponse)
    assert not isinstance(answer, Closed)
    assert answer.topics[0].error_code == 0
    return topic


def frame(topic: str, number: int, records: bytes, version: int, acks: int = -1) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return request_frame(
        ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), version, number, "bulk"
    )


def results(client: RawClient, count: int, version: int) -> list[tuple[int, int]]:
    """Error code and base offset of each answer, in the order of the requests."""
    found = []
    for number in range(count):
        answer = client.read_frame()
        assert not isinstance(answer, Closed)
        assert struct.unpack(">i", answer[:4])[0] == number
        _, start = parse_response_header(answer, 0, version)
        response = codec.decode(ProduceResponse, answer, version, start=start)
        (partition,) = response.responses[0].partition_responses
        found.append((partition.error_code, partition.base_offset))
    return found


def values(client: RawClient, topic: str) -> list[tuple[int, bytes | None]]:
    """Every record of the partition: offset and value."""
    found: list[tuple[int, bytes | None]] = []
    while True:
        wanted = FetchPartition(fetch_offset=len(found), partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
        )
        answer = client.ask(request, 11, FetchResponse)
        assert not isinstance(answer, Closed)
        data = bytes(answer.responses[0].partitions[0].records or b"")
        if not data:
            return found
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_in_bytes]
            found += [(header.base_offset + each.offset_delta, each.value) for each in iter_records(batch)]


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("acks", [-1, 1])
def test_bulk_and_single_appends_make_one_log(broker: BrokerProcess, version: int, acks: int) -> None:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        topic = create(client)
        batches, expected, offset = [], [], 0
        for number in range(300):
            count = 1 + number % 3
            packed = Codec.GZIP if number % 50 == 49 else Codec.NONE
            records = [NewRecord(b"k", b"%d-%d" % (number, n), (), NOW) for n in range(count)]
            batches.append(build_batch(records, codec=packed))
            expected.append((0, offset))
            offset += count

        client.send(b"".join(frame(topic, n, data, version, acks) for n, data in enumerate(batches)))

        assert results(client, len(batches), version) == expected
        stored = values(client, topic)
        assert [at for at, _ in stored] == list(range(offset))
        assert [value for _, value in stored] == [
            b"%d-%d" % (n, i) for n in range(300) for i in range(1 + n % 3)
        ]


def test_a_bad_batch_within_a_bulk_append_is_refused_alone(broker: BrokerProcess) -> None:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        topic = create(client)
        good = build_batch([NewRecord(b"k", b"v", (), NOW)])
        bad = good[:-1] + b"?"
        batches = [good, good, good, bad, good, good]

        client.send(b"".join(frame(topic, n, data, 9) for n, data in enumerate(batches)))

        assert results(client, 6, 9) == [(0, 0), (0, 1), (0, 2), (2, -1), (0, 3), (0, 4)]


def test_bounds_at_the_end_of_time(broker: BrokerProcess) -> None:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        topic = create(client, message_timestamp_after_max_ms=LONG_MAX, segment_ms=LONG_MAX)
        batch = build_batch([NewRecord(b"k", b"v", (), NOW)])

        client.send(b"".join(frame(topic, number, batch, 9) for number in range(5)))

        assert results(client, 5, 9) == [(0, number) for number in range(5)]


def test_a_segment_limit_lowered_below_the_active_segment(broker: BrokerProcess) -> None:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        topic = create(client)
        batch = build_batch([NewRecord(b"k", bytes(20_000), (), NOW)])
        client.send(b"".join(frame(topic, number, batch, 9) for number in range(80)))
        assert results(client, 80, 9)[-1] == (0, 79)
        setting = AlterableConfig(name="segment.bytes", config_operation=0, value=str(1 << 20))
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[setting])
        changed = client.ask(
            IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
        )
        assert not isinstance(changed, Closed)
        assert changed.responses[0].error_code == 0

        client.send(b"".join(frame(topic, number, batch, 9) for number in range(5)))

        assert results(client, 5, 9) == [(0, 80 + number) for number in range(5)]

"""Order on one connection, over a real socket: pipelined requests are answered one after the other."""

from __future__ import annotations

import struct

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.records.builder import NewRecord, build_batch
from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame
from ottla.wire.messages import fetch, list_offsets, metadata, produce
from tests.support.clients import create_topic, fresh
from tests.support.raw import Address, Closed, RawClient

PRODUCE_VERSION = 9


def batch(value: bytes) -> bytes:
    return bytes(build_batch([NewRecord(key=None, value=value, timestamp=1_700_000_000_000)]))


def produce_request(topic: str, value: bytes, acks: int = -1) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=0, records=batch(value))
    data = produce.TopicProduceData(name=topic, partition_data=[partition])
    return produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def answer(client: RawClient, correlation_id: int) -> bytes:
    frame = client.read_frame()
    assert not isinstance(frame, Closed)
    assert struct.unpack(">i", frame[:4])[0] == correlation_id
    return frame


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("order"))


@pytest.fixture
def address(broker: BrokerProcess) -> Address:
    return Address.parse(broker.bootstrap)


def test_pipelined_produce_requests_get_responses_in_order_with_rising_offsets(
    address: Address, topic: str
) -> None:
    with RawClient(address) as client:
        requests = [
            request_frame(produce_request(topic, b"%d" % n), PRODUCE_VERSION, n, "raw") for n in range(200)
        ]
        client.send(b"".join(requests))
        offsets = []
        for number in range(200):
            frame = answer(client, number)
            _, start = parse_response_header(frame, 0, PRODUCE_VERSION)
            response = codec.decode(produce.ProduceResponse, frame, PRODUCE_VERSION, start=start)
            (partition,) = response.responses[0].partition_responses
            assert partition.error_code == 0
            offsets.append(partition.base_offset)
        assert offsets == list(range(200))


def test_a_request_behind_produce_sees_what_was_produced(address: Address, topic: str) -> None:
    latest = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic, partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    with RawClient(address) as client:
        frames = [request_frame(produce_request(topic, b"x"), PRODUCE_VERSION, n, "raw") for n in range(20)]
        client.send(b"".join(frames) + request_frame(latest, 6, 20, "raw"))
        for number in range(20):
            answer(client, number)
        frame = answer(client, 20)
        _, start = parse_response_header(frame, 2, 6)
        response = codec.decode(list_offsets.ListOffsetsResponse, frame, 6, start=start)
        assert response.topics[0].partitions[0].offset == 20


def test_produce_without_acknowledgement_gets_no_response_and_keeps_its_order(
    address: Address, topic: str
) -> None:
    with RawClient(address) as client:
        silent = request_frame(produce_request(topic, b"silent", acks=0), PRODUCE_VERSION, 1, "raw")
        loud = request_frame(produce_request(topic, b"loud"), PRODUCE_VERSION, 2, "raw")
        client.send(silent + loud)
        frame = answer(client, 2)
        _, start = parse_response_header(frame, 0, PRODUCE_VERSION)
        response = codec.decode(produce.ProduceResponse, frame, PRODUCE_VERSION, start=start)
        assert response.responses[0].partition_responses[0].base_offset == 1


def test_a_request_that_arrives_byte_by_byte_gets_a_response(address: Address, topic: str) -> None:
    with RawClient(address) as client:
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=topic)])
        for byte in request_frame(request, 9, 5, "raw"):
            client.send(bytes([byte]))
        answer(client, 5)


def test_a_waiting_fetch_delays_only_its_own_connection(address: Address, topic: str) -> None:
    waiting = fetch.FetchRequest(
        max_wait_ms=20_000,
        min_bytes=1,
        topics=[
            fetch.FetchTopic(
                topic=topic, partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1000)]
            )
        ],
    )
    with RawClient(address) as reader, RawClient(address) as writer:
        reader.send(
            request_frame(waiting, 12, 1, "raw") + request_frame(metadata.MetadataRequest(), 9, 2, "raw")
        )
        sent = writer.ask(produce_request(topic, b"news"), PRODUCE_VERSION, produce.ProduceResponse)
        assert not isinstance(sent, Closed)
        frame = answer(reader, 1)
        assert b"news" in frame
        answer(reader, 2)

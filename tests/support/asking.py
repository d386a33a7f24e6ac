"""One question to a broker over a raw connection, and the part of the answer that tests look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import iter_records
from ottla.wire.frames import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.raw import Closed, RawClient

NOW_MS = 1_760_000_000_000
PRODUCE_VERSION, FETCH_VERSION = 9, 11


@dataclass(frozen=True)
class Produced:
    error: ErrorCode
    offset: int


@dataclass(frozen=True)
class Fetched:
    error: ErrorCode
    high_watermark: int
    values: list[bytes]


def produce_request(
    topic: str, partition: int, values: Sequence[bytes] = (b"x",), acks: int = -1, timeout_ms: int = 10_000
) -> ProduceRequest:
    batch = build_batch([NewRecord(None, value, (), NOW_MS) for value in values])
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce_frame(topic: str, partition: int, values: Sequence[bytes] = (b"x",), acks: int = -1) -> bytes:
    return request_frame(produce_request(topic, partition, values, acks), PRODUCE_VERSION, 1, "raw")


def produce(
    client: RawClient, topic: str, partition: int = 0, values: Sequence[bytes] = (b"x",), acks: int = -1
) -> Produced:
    answer = client.ask(produce_request(topic, partition, values, acks), PRODUCE_VERSION, ProduceResponse)
    assert not isinstance(answer, Closed)
    (result,) = answer.responses[0].partition_responses
    return Produced(ErrorCode(result.error_code), result.base_offset)


def fetch_request(topic: str, partition: int, offset: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )


def fetch(client: RawClient, topic: str, partition: int = 0, offset: int = 0) -> Fetched:
    answer = client.ask(fetch_request(topic, partition, offset), FETCH_VERSION, FetchResponse)
    assert not isinstance(answer, Closed)
    (result,) = answer.responses[0].partitions
    values = []
    left = bytes(result.records or b"")
    while len(left) >= 61:
        size = 12 + int.from_bytes(left[8:12], "big")
        if size > len(left):
            break
        values += [bytes(record.value or b"") for record in iter_records(left[:size])]
        left = left[size:]
    return Fetched(ErrorCode(result.error_code), result.high_watermark, values)


def create(
    client: RawClient, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> ErrorCode:
    new = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    answer = client.ask(CreateTopicsRequest(timeout_ms=10_000, topics=[new]), 7, CreateTopicsResponse)
    assert not isinstance(answer, Closed)
    return ErrorCode(answer.topics[0].error_code)


def topics(client: RawClient) -> dict[str, MetadataResponseTopic]:
    answer = client.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    assert not isinstance(answer, Closed)
    return {topic.name or "": topic for topic in answer.topics}


def ping(client: RawClient) -> bool:
    """Whether the broker still answers this connection."""
    return not isinstance(client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse), Closed)

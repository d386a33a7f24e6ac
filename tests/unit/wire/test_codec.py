"""Memory of decoded messages."""

from __future__ import annotations

import tracemalloc

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import encode_uvarint
from ottla.wire import codec
from ottla.wire.codec import ALLOWANCE_BYTES, Budget
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import uuid_of
from ottla.wire.schema import Message


def held_bytes(message: type[Message], raw: bytes, version: int, budget: Budget) -> int:
    """What is in memory because of a message, or while it was being refused."""
    codec.decode(message, codec.encode(message(), version), version)
    tracemalloc.start()
    try:
        # The cache of UUIDs is not the message's: fill it, so that it can only replace what it has.
        uuid_of.cache_clear()
        for number in range(uuid_of.cache_parameters()["maxsize"] or 0):
            uuid_of((number + (1 << 100)).to_bytes(16, "big"))
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        made = codec.decode(message, raw, version, budget=budget)
        held, _ = tracemalloc.get_traced_memory()
        del made
    except RemoteProtocolError:
        _, held = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return held - before


# Each is the cheapest way for a sender to make us build many objects.
FLOODS = {
    "empty names": (MetadataRequest, 1, lambda n: n.to_bytes(4, "big") + bytes(2 * n)),
    "empty names, flexible": (
        MetadataRequest,
        9,
        lambda n: encode_uvarint(n + 1) + b"\x01\x00" * n + bytes(4),
    ),
    "distinct ids": (
        MetadataRequest,
        12,
        lambda n: (
            encode_uvarint(n + 1) + b"".join(i.to_bytes(16, "big") + bytes(2) for i in range(n)) + bytes(4)
        ),
    ),
    "strings": (DeleteTopicsRequest, 1, lambda n: n.to_bytes(4, "big") + b"\x00\x01x" * n + bytes(4)),
    "wide strings": (
        DeleteTopicsRequest,
        1,
        lambda n: n.to_bytes(4, "big") + (b"\x00\x40" + "\U0001f4a9".encode() + b"x" * 60) * n + bytes(4),
    ),
    "replaced bytes": (
        DeleteTopicsRequest,
        1,
        lambda n: n.to_bytes(4, "big") + b"\x00\x04\xff\xfe\xff\xfe" * n + bytes(4),
    ),
    "null config arrays": (
        AlterConfigsRequest,
        2,
        lambda n: encode_uvarint(n + 1) + b"\x02\x01\x01\x00" * n + bytes(2),
    ),
    "structs at the second level": (
        ListOffsetsRequest,
        1,
        lambda n: (
            bytes(4) + (1).to_bytes(4, "big") + b"\x00\x01t" + n.to_bytes(4, "big") + b"\x7f" * (12 * n)
        ),
    ),
    "numbers at the third level": (
        AddPartitionsToTxnRequest,
        4,
        lambda n: (
            b"\x02\x02x"
            + bytes(11)
            + b"\x02\x02t"
            + encode_uvarint(n + 1)
            + b"\x7f" * (4 * n)
            + b"\x00\x00\x00"
        ),
    ),
    "strings at the second level": (
        DescribeConfigsRequest,
        4,
        lambda n: b"\x02\x02\x02t" + encode_uvarint(n + 1) + b"\x02k" * n + b"\x00\x00\x00\x00",
    ),
    "broker ids": (
        CreateTopicsRequest,
        5,
        lambda n: (
            b"\x02\x02a"
            + bytes(6)
            + b"\x02"
            + bytes(4)
            + encode_uvarint(n + 1)
            + b"\x7f" * (4 * n)
            + b"\x00\x01\x00"
            + bytes(6)
        ),
    ),
}


@pytest.mark.parametrize("count", [100, 5_000, 100_000])
@pytest.mark.parametrize("flood", FLOODS)
def test_memory_stays_within_the_budget(flood: str, count: int) -> None:
    message, version, build = FLOODS[flood]
    raw = build(count)
    budget = Budget(len(raw))
    held = held_bytes(message, raw, version, budget)
    assert held <= ALLOWANCE_BYTES + 4 * len(raw)


@pytest.mark.parametrize("flood", FLOODS)
def test_the_estimate_is_not_below_what_is_held(flood: str) -> None:
    message, version, build = FLOODS[flood]
    raw = build(3_000)
    budget = Budget(len(raw))
    held = held_bytes(message, raw, version, budget)
    assert held <= budget.spent


def test_many_small_structs_are_rejected_before_they_are_built() -> None:
    raw = (1_000_000).to_bytes(4, "big") + bytes(2_000_000)
    with pytest.raises(RemoteProtocolError, match="budget"):
        codec.decode(MetadataRequest, raw, 1)
    assert held_bytes(MetadataRequest, raw, 1, Budget(len(raw))) < 64 << 10


def test_unknown_tagged_fields_are_not_kept() -> None:
    raw = b"\x01\x00\x00" + b"\x01\x05" + encode_uvarint(1 << 20) + bytes(1 << 20)
    assert held_bytes(MetadataRequest, raw, 12, Budget(len(raw))) < 4 << 10


def test_a_caller_may_set_a_smaller_budget() -> None:
    raw = codec.encode(MetadataRequest(topics=[MetadataRequestTopic(name="topic")] * 1000), 12)
    codec.decode(MetadataRequest, raw, 12)
    with pytest.raises(RemoteProtocolError, match="budget"):
        codec.decode(MetadataRequest, raw, 12, budget=Budget(len(raw), allowance_bytes=1000))


def many_topics() -> Message:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"t{i}") for i in range(10_000)])


def many_partitions_to_list() -> Message:
    partitions = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(10_000)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="topic", partitions=partitions)])


def many_partitions_to_fetch() -> Message:
    partitions = [
        FetchPartition(partition=i, fetch_offset=i << 33, partition_max_bytes=1 << 20) for i in range(10_000)
    ]
    return FetchRequest(topics=[FetchTopic(topic="topic", partitions=partitions)])


def many_topics_to_create() -> Message:
    configs = [
        CreatableTopicConfig(name=name, value="1000") for name in ("retention.ms", "segment.ms", "flush.ms")
    ]
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1000, 1001, 1002])]
    topics = [
        CreatableTopic(name=f"topic-{i}", configs=configs, assignments=assignments) for i in range(2_000)
    ]
    return CreateTopicsRequest(topics=topics)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (many_topics(), 1),
        (many_topics(), 9),
        (many_partitions_to_list(), 1),
        (many_partitions_to_list(), 11),
        (many_partitions_to_fetch(), 4),
        (many_partitions_to_fetch(), 12),
        (many_topics_to_create(), 4),
        (many_topics_to_create(), 7),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_large_regular_requests_are_accepted(request_: Message, version: int) -> None:
    raw = codec.encode(request_, version)
    budget = Budget(len(raw))
    assert codec.decode(type(request_), raw, version, budget=budget) == request_
    assert budget.spent <= budget.granted

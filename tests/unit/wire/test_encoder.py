"""Encoded bytes, and values that cannot be encoded."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.ids import Uuid
from ottla.wire import codec
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.schema import Message

TOPIC_ID = Uuid(int=0x000102030405060708090A0B0C0D0E0F)


@pytest.mark.parametrize(
    ("message", "version", "raw"),
    [
        (MetadataRequest(topics=None), 1, "ffffffff"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 0, "00000001" + "00026162"),
        (MetadataRequest(topics=None), 12, "00" + "01" + "00" + "00"),
        (
            MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=TOPIC_ID)]),
            12,
            "02" + "000102030405060708090a0b0c0d0e0f" + "00" + "00" + "01" + "00" + "00",
        ),
        (
            ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18)]),
            0,
            "0023" + "00000001" + "001200000000",
        ),
        (
            ApiVersionsResponse(
                throttle_time_ms=1,
                finalized_features_epoch=7,
                finalized_features=[FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)],
            ),
            3,
            # Two tags, 1 (the epoch, 8 bytes) before 2 (one feature, 8 bytes).
            "0000"
            + "01"
            + "00000001"
            + "02"
            + "0108"
            + "0000000000000007"
            + "0208"
            + "02026600020001"
            + "00",
        ),
        (DescribeTopicPartitionsRequest(), 0, "01" + "000007d0" + "ff" + "00"),
        (
            DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="a", partition_index=2)),
            0,
            "01" + "000007d0" + "01" + "0261" + "00000002" + "00" + "00",
        ),
    ],
)
def test_bytes(message: Message, version: int, raw: str) -> None:
    assert codec.encode(message, version).hex() == raw


@pytest.mark.parametrize(
    ("message", "version", "why"),
    [
        (
            MetadataRequest(topics=[], allow_auto_topic_creation=False),
            3,
            "allow_auto_topic_creation cannot be encoded",
        ),
        (ListOffsetsRequest(isolation_level=1), 1, "isolation_level cannot be encoded"),
        (MetadataRequest(topics=None), 0, "cannot be encoded"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 1, "cannot be encoded"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32768)]), 1, "too long"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32768)]), 12, "too long"),
        (MetadataRequest(topics=[MetadataRequestTopic(name="\ud800")]), 12, "cannot be encoded"),
        (ListOffsetsRequest(replica_id=2**31), 1, "cannot be encoded"),
        (ListOffsetsRequest(), 0, "versions 1 to 11"),
    ],
)
def test_a_value_that_the_version_cannot_encode_is_rejected(message: Message, version: int, why: str) -> None:
    with pytest.raises(LocalError, match=why):
        codec.encode(message, version)


def test_an_ignorable_field_is_omitted() -> None:
    written = ApiVersionsResponse(throttle_time_ms=9)
    assert codec.decode(ApiVersionsResponse, codec.encode(written, 0), 0) == ApiVersionsResponse()


def test_large_fields_are_not_copied() -> None:
    records = memoryview(bytearray(1000))
    partition = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(topic_data=[TopicProduceData(name="a", partition_data=[partition])])
    assert any(part is records for part in codec.encode_parts(request, 9))


@pytest.mark.parametrize("character", ["a", "\ufffd", "\U0001f600"])
@pytest.mark.parametrize("version", [2, 7])
def test_a_long_error_message_is_cut(version: int, character: str) -> None:
    """Messages of errors contain names of the request, which have up to 32,767 bytes."""
    message = f"Topic {character * 32767} is invalid"
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_message=message)])
    decoded = codec.decode(CreateTopicsResponse, codec.encode(response, version), version)
    assert decoded.topics[0].error_message == message[:8191]

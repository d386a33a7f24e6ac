"""Decoding of unusual bytes, compared with the classes of Apache Kafka."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.base.ids import Uuid
from ottla.base.varint import encode_uvarint
from ottla.wire import codec
from ottla.wire.decoder import object_bytes, wire_bytes_min
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import Message

ONE_TOPIC = "00000001" + "000161"


@pytest.mark.parametrize(
    ("version", "raw", "expected"),
    [
        (1, "ffffffff", MetadataRequest(topics=None)),
        (1, "fffffffe", MetadataRequest(topics=None)),
        (1, "80000000", MetadataRequest(topics=None)),
        (1, "00000000", MetadataRequest(topics=[])),
        (1, ONE_TOPIC, MetadataRequest(topics=[MetadataRequestTopic(name="a")])),
        (1, ONE_TOPIC + "deadbeef", MetadataRequest(topics=[MetadataRequestTopic(name="a")])),
        (4, "0000000007", MetadataRequest(topics=[], allow_auto_topic_creation=True)),
        (4, "00000000ff", MetadataRequest(topics=[], allow_auto_topic_creation=True)),
        (1, "00000001" + "0002c328", MetadataRequest(topics=[MetadataRequestTopic(name="\ufffd(")])),
        (1, "00000001" + "0002ff41", MetadataRequest(topics=[MetadataRequestTopic(name="\ufffdA")])),
        (12, "01" + "000000", MetadataRequest(topics=[], allow_auto_topic_creation=False)),
        (12, "ffffffff0f" + "000000", MetadataRequest(topics=None, allow_auto_topic_creation=False)),
        (12, "01" + "0000" + "020500050101", MetadataRequest(topics=[], allow_auto_topic_creation=False)),
        (12, "01" + "0000" + "0209000100", MetadataRequest(topics=[], allow_auto_topic_creation=False)),
    ],
    ids=[
        "null array",
        "array length -2 is null",
        "least array length is null",
        "empty array",
        "one topic",
        "trailing bytes are ignored",
        "7 is true",
        "-1 is true",
        "cut UTF-8 sequence is replaced",
        "impossible UTF-8 byte is replaced",
        "flexible",
        "varint of all bits is null",
        "repeated unknown tag is skipped",
        "unsorted unknown tags are skipped",
    ],
)
def test_read(version: int, raw: str, expected: MetadataRequest) -> None:
    assert codec.decode(MetadataRequest, bytes.fromhex(raw), version) == expected


@pytest.mark.parametrize(
    ("message", "version", "raw", "why"),
    [
        (MetadataRequest, 1, "", "ends too early"),
        (MetadataRequest, 1, "000000", "ends too early"),
        (MetadataRequest, 0, "ffffffff", "must not be null"),
        (MetadataRequest, 1, "00000001ffff", "must not be null"),
        (MetadataRequest, 1, "00000001000561", "longer than the message"),
        (MetadataRequest, 1, "7fffffff" + "00" * 64, "more elements than bytes"),
        (MetadataRequest, 1, "00000002000161", "more elements than bytes"),
        (MetadataRequest, 12, "808080808001", "longer than 5 bytes"),
        (MetadataRequest, 12, "01000081010000", "too many tagged fields"),
        (MetadataRequest, 12, "010000010507", "a tag is longer"),
        (MetadataRequest, 12, "0100000105ffffffff0f", "a tag is longer"),
        (ApiVersionsRequest, 3, "818002" + "78" * 33000 + "0100", "too long"),
        (ApiVersionsRequest, 3, "00" + "0100", "must not be null"),
        (ProduceRequest, 3, "ffff" + "0001" + "00000000" + "ffffffff", "must not be null"),
        (
            ProduceRequest,
            9,
            "00" + "0001" + "00000000" + "02" + "0261" + "02" + "00000000" + "ff00",
            "longer than",
        ),
        (CreateTopicsRequest, 5, "02" + "0261" + "00000001" + "0001" + "f0ffffff07" + "00", "more elements"),
    ],
)
def test_invalid_bytes_are_rejected(message: type[Message], version: int, raw: str, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        codec.decode(message, bytes.fromhex(raw), version)


def test_a_negative_string_length_is_null_where_null_is_allowed() -> None:
    header = codec.decode(RequestHeader, bytes.fromhex("0003000100000007fffe"), 1)
    assert header.client_id is None


def test_nullable_struct() -> None:
    absent = codec.decode(DescribeTopicPartitionsRequest, bytes.fromhex("01000000058000"), 0)
    assert absent.cursor is None
    present = codec.decode(
        DescribeTopicPartitionsRequest, bytes.fromhex("0100000005" + "05" + "0261000000020000"), 0
    )
    assert present.cursor == Cursor(topic_name="a", partition_index=2)


def test_the_last_of_repeated_tags_is_used() -> None:
    request = FetchRequest(cluster_id="a", replica_state=ReplicaState(replica_id=3))
    raw = codec.encode(request, 15)
    tags = codec.encode(FetchRequest(cluster_id="b"), 15)
    section = len(codec.encode(FetchRequest(), 15)) - 1
    both = raw[:section] + b"\x03" + raw[section + 1 :] + tags[section + 1 :]
    read = codec.decode(FetchRequest, both, 15)
    assert (read.cluster_id, read.replica_state.replica_id) == ("b", 3)


def test_records_are_a_view_of_what_was_received() -> None:
    raw = bytearray.fromhex(
        "ffff" + "0001" + "00000001" + "00000001" + "000161" + "00000001" + "00000000" + "00000003616263"
    )
    request = codec.decode(ProduceRequest, raw, 3)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    raw[-1] = ord("d")
    assert bytes(records) == b"abd"


def test_a_message_may_start_at_any_position_of_a_view() -> None:
    raw = memoryview(b"??" + bytes.fromhex(ONE_TOPIC) + b"!")
    message, position = codec.decode_at(MetadataRequest, raw, 1, 2)
    assert message.topics == [MetadataRequestTopic(name="a")]
    assert position == len(raw) - 1


def test_a_field_of_another_version_has_its_default() -> None:
    topic = codec.decode(MetadataRequest, bytes.fromhex(ONE_TOPIC), 1).topics
    assert topic is not None
    assert topic[0].topic_id == Uuid(int=0)


def test_an_undeclared_version_is_rejected() -> None:
    with pytest.raises(LocalError, match="versions 0 to 13, not 14"):
        codec.decode(MetadataRequest, b"", 14)


def test_estimates_follow_the_version() -> None:
    assert wire_bytes_min(MetadataRequestTopic, 1, flexible=False) == 2
    assert wire_bytes_min(MetadataRequestTopic, 12, flexible=True) == 16 + 1 + 1
    assert object_bytes(MetadataRequestTopic, 12) > object_bytes(MetadataRequestTopic, 1)


@pytest.mark.parametrize(("version", "count"), [(1, "00000001"), (12, "02" + "00" * 16)])
def test_malformed_text_that_cannot_be_encoded_again_is_rejected(version: int, count: str) -> None:
    """Each malformed byte becomes U+FFFD, which has three bytes: the response could not contain the name."""

    def decode(size: int) -> MetadataRequest:
        length = size.to_bytes(2, "big") if version == 1 else encode_uvarint(size + 1)
        return codec.decode(
            MetadataRequest, bytes.fromhex(count) + length + b"\xff" * size + bytes(8), version
        )

    accepted = decode(10922)
    assert codec.encode(accepted, version)
    with pytest.raises(RemoteProtocolError, match="too long to be encoded"):
        decode(10923)

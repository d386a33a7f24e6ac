from __future__ import annotations

import uuid

import pytest

from ottla.base.errors import LocalError
from ottla.metadata import records as rec
from ottla.metadata.record_codec import RECORD_TYPES, decode_record, encode_record, version_for
from ottla.wire.schema import Message

# Taken from the log of an Apache Kafka 4.3.1 node.
FEATURE = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")
MIN_ISR = bytes.fromhex("0104000401146d696e2e696e73796e632e7265706c69636173023100")


def test_frame_and_message_as_kafka_writes_them() -> None:
    record = rec.FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record, 30) == FEATURE
    assert decode_record(FEATURE) == record


def test_config_record_as_kafka_writes_it() -> None:
    record = rec.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
    assert encode_record(record, 30) == MIN_ISR


def test_every_record_type_survives_in_every_version_it_is_written_in() -> None:
    assert len(RECORD_TYPES) == 26
    for record_type in RECORD_TYPES.values():
        record = record_type()
        assert decode_record(encode_record(record, 30)) == record


@pytest.mark.parametrize(
    ("record_type", "level", "version"),
    [
        (rec.RegisterBrokerRecord, 30, 4),
        (rec.RegisterBrokerRecord, 29, 3),
        (rec.RegisterBrokerRecord, 8, 2),
        (rec.RegisterBrokerRecord, 7, 1),
        (rec.PartitionRecord, 30, 2),
        (rec.PartitionRecord, 21, 1),
        (rec.PartitionRecord, 7, 0),
        (rec.PartitionChangeRecord, 22, 1),
        (rec.BrokerRegistrationChangeRecord, 30, 3),
        (rec.TopicRecord, 30, 0),
    ],
)
def test_version_follows_the_metadata_version(record_type: type[Message], level: int, version: int) -> None:
    assert version_for(record_type, level) == version


def test_partition_without_directories_can_be_written_for_old_clusters() -> None:
    record = rec.PartitionRecord(partition_id=1, topic_id=uuid.UUID(int=3), replicas=[1], isr=[1], leader=1)
    assert decode_record(encode_record(record, 7)) == record


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "ends inside"),
        (b"\x01", "ends inside"),
        (b"\x02\x0c\x00", "frame version 2"),
        (b"\x01\x7f\x00", "unknown type 127"),
        (b"\x01\xff\x01\x00", "unknown type 255"),
        (b"\x01\x0c\x07", "version 7"),
        (FEATURE[:-3], "FeatureLevelRecord"),
    ],
)
def test_what_cannot_be_read_is_named(value: bytes, text: str) -> None:
    with pytest.raises(LocalError, match=text):
        decode_record(value)

from __future__ import annotations

import uuid

import pytest

from ottla.base.errors import LocalError
from ottla.quorum.control_records import control_batch, read_control_batch
from ottla.records.batch import crc_ok, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
    VotersRecordVoter,
)
from ottla.wire.schema import Message

MESSAGES: list[Message] = [
    LeaderChangeMessage(leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[Voter(voter_id=1)]),
    SnapshotHeaderRecord(last_contained_log_timestamp=5),
    KRaftVersionRecord(kraft_version=1),
    VotersRecord(
        voters=[
            VotersRecordVoter(
                voter_id=1,
                voter_directory_id=uuid.UUID(int=3),
                endpoints=[Endpoint(name="CONTROLLER", host="h", port=1)],
                kraft_version_feature=KRaftVersionFeature(max_supported_version=1),
            )
        ]
    ),
    SnapshotFooterRecord(),
]


def test_there_and_back() -> None:
    batch = control_batch(MESSAGES, base_offset=40, epoch=6, now_ms=77)
    header = read_header(batch)
    assert crc_ok(batch)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (40, 44, 6)
    assert header.is_control
    assert header.max_timestamp == 77
    assert list(read_control_batch(header, batch)) == MESSAGES


def test_snapshot_head_as_kafka_writes_it() -> None:
    """The first batch of the snapshot that Apache Kafka's storage tool writes for a standalone voter."""
    kafka = bytes.fromhex(
        "00000000000000000000009a0000000002e316c4d4002000000002000001a1e1ca4557000001a1e1ca4557ffffffffff"
        "ffffffffffffffffff000000032a0000000800000003160000000001a1e1ca454800001e00000208000000050a000000"
        "010000820100000408000000066e000002000000013651829ca3354ece8c917c2da82ee585020b434f4e54524f4c4c45"
        "520a3132372e302e302e316a39000000000100000000"
    )
    header = read_header(kafka)
    head, version, voters = read_control_batch(header, kafka)
    assert crc_ok(kafka)
    assert isinstance(head, SnapshotHeaderRecord)
    assert version == KRaftVersionRecord(kraft_version=1)
    made = control_batch([head, version, voters], base_offset=0, epoch=0, now_ms=header.base_timestamp)
    assert made == kafka


def test_unknown_types_are_passed_over() -> None:
    records = [NewRecord(b"\0\0\0\x63", b"?", (), 1)]
    batch = build_batch(records, base_offset=0, leader_epoch=1, control=True)
    assert list(read_control_batch(read_header(batch), batch)) == []


@pytest.mark.parametrize(
    "record", [NewRecord(None, b"x"), NewRecord(b"\0", b"x"), NewRecord(b"\0\0\0\2", None)]
)
def test_malformed_record_is_named(record: NewRecord) -> None:
    batch = build_batch([record], base_offset=9, leader_epoch=1, control=True)
    with pytest.raises(LocalError, match="offset 9"):
        list(read_control_batch(read_header(batch), batch))


def test_cut_off_message_is_named() -> None:
    batch = build_batch([NewRecord(b"\0\0\0\2", b"\0\0\0")], base_offset=9, leader_epoch=1, control=True)
    with pytest.raises(LocalError, match="LeaderChangeMessage"):
        list(read_control_batch(read_header(batch), batch))

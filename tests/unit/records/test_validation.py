"""Every odd batch gets Kafka's answer, and the log would hold Kafka's bytes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.records.batch import TimestampType, crc_ok, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.record import iter_records
from ottla.records.validation import BatchRefused, BatchRules, validate

from .batch_cases import CASES, FIELDS, HOUR_MS, NOW_MS, SOUND, TOPICS, Case, lz4_frame, packed, plain

OWN_FIELDS = {"base_offset", "partition_leader_epoch", "crc"}


def rules_of(topic: str) -> BatchRules:
    """The rules that a topic's settings make."""
    settings = TOPICS[topic]
    values: dict[str, Any] = {
        "timestamp_type": TimestampType.LOG_APPEND_TIME
        if settings.get("message.timestamp.type") == "LogAppendTime"
        else TimestampType.CREATE_TIME,
        "compression_type": settings.get("compression.type", "producer"),
        "compacted": settings.get("cleanup.policy") == "compact",
    }
    for name, key in (
        ("max.message.bytes", "max_message_bytes"),
        ("message.timestamp.before.max.ms", "timestamp_before_max_ms"),
        ("message.timestamp.after.max.ms", "timestamp_after_max_ms"),
    ):
        if name in settings:
            values[key] = int(settings[name])
    return BatchRules(**values)


@pytest.mark.parametrize("case", [case for case in CASES if case.code], ids=lambda case: case.name)
def test_refused_with_kafkas_code(case: Case) -> None:
    with pytest.raises(BatchRefused) as refused:
        validate(
            memoryview(bytearray(case.data(NOW_MS))),
            rules_of(case.topic),
            NOW_MS,
            api_version=case.api_version,
        )
    assert refused.value.code == case.code
    assert refused.value.message
    assert tuple(index for index, _ in refused.value.record_errors) == case.record_errors


@pytest.mark.parametrize("case", [case for case in CASES if not case.code], ids=lambda case: case.name)
def test_stored_as_kafka_stores_it(case: Case) -> None:
    sent = case.data(NOW_MS)
    rules = rules_of(case.topic)
    valid = validate(memoryview(bytearray(sent)), rules, NOW_MS, api_version=case.api_version)
    header, before = read_header(valid.data), read_header(sent)
    assert valid.header == header
    assert len(valid.data) == header.size_in_bytes
    assert crc_ok(valid.data)
    assert not valid.data.readonly
    repacked = header.compression != before.compression
    assert valid.rewritten is repacked
    expected = {name: _expected(name, value) for name, value in case.changed.items()}
    ignored = OWN_FIELDS | ({"batch_length"} if repacked else set())
    found = {
        name: getattr(header, name)
        for name in FIELDS
        if name not in ignored and getattr(header, name) != getattr(before, name)
    }
    assert found == expected
    if case.records is not None:
        assert tuple((r.offset_delta, r.timestamp_delta) for r in iter_records(valid.data)) == case.records
    if not repacked:
        assert valid.data[61:] == sent[61 : len(valid.data)]
    append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert valid.log_append_time_ms == (NOW_MS if append_time else -1)


def _expected(name: str, value: Any) -> Any:
    if value == "now":
        return NOW_MS
    if name.endswith("timestamp") and value >= 0:
        return NOW_MS + value
    return value


def test_sound_batch_is_not_copied() -> None:
    sent = bytearray(plain(NOW_MS))
    valid = validate(memoryview(sent), BatchRules(), NOW_MS, api_version=13)
    assert valid.data.obj is sent


def test_read_only_input_is_copied() -> None:
    sent = plain(NOW_MS)
    valid = validate(memoryview(sent), BatchRules(), NOW_MS, api_version=13)
    assert valid.data == sent
    assert not valid.data.readonly


def test_window_ends_are_allowed() -> None:
    rules = BatchRules(timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=HOUR_MS)
    for edge, beyond in ((NOW_MS - HOUR_MS, -1), (NOW_MS + HOUR_MS, 1)):
        validate(memoryview(plain(edge, 1)), rules, NOW_MS, api_version=13)
        with pytest.raises(BatchRefused) as refused:
            validate(memoryview(plain(edge + beyond, 1)), rules, NOW_MS, api_version=13)
        assert refused.value.code == ErrorCode.INVALID_TIMESTAMP


def test_size_limit_is_inclusive() -> None:
    sent = plain(NOW_MS)
    validate(memoryview(sent), BatchRules(max_message_bytes=len(sent)), NOW_MS, api_version=13)
    with pytest.raises(BatchRefused) as refused:
        validate(memoryview(sent), BatchRules(max_message_bytes=len(sent) - 1), NOW_MS, api_version=13)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compression_bomb_is_refused(codec: Codec) -> None:
    bomb = build_batch([NewRecord(b"k", bytes(3_000_000), (), NOW_MS)], codec=codec)
    assert len(bomb) < 200_000
    validate(memoryview(bomb), BatchRules(), NOW_MS, api_version=13)
    with pytest.raises(BatchRefused) as refused:
        validate(memoryview(bomb), BatchRules(decompressed_bytes_max=2_000_000), NOW_MS, api_version=13)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_wrong_lz4_content_checksum_is_refused() -> None:
    """Kafka stores such a batch, and then only Java consumers can read it."""
    frame = lz4_frame(0x64, SOUND, 0x40, 0xA7) + b"junk"
    with pytest.raises(BatchRefused) as refused:
        validate(memoryview(packed(frame, Codec.LZ4)(NOW_MS)), BatchRules(), NOW_MS, api_version=13)
    assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_levels_are_used_when_a_batch_is_packed_again() -> None:
    text = b"".join(b"%d is %d squared, " % (i * i, i) for i in range(20_000))
    sent = build_batch([NewRecord(b"k", text, (), NOW_MS)])

    def stored(**levels: Any) -> int:
        return len(validate(memoryview(sent), BatchRules(**levels), NOW_MS, api_version=13).data)

    assert stored(compression_type="gzip", gzip_level=9) < stored(compression_type="gzip", gzip_level=1)
    assert stored(compression_type="zstd", zstd_level=19) < stored(compression_type="zstd", zstd_level=1)
    assert stored(compression_type="lz4", lz4_level=12) < stored(compression_type="lz4")


def test_producer_fields_survive_packing_again() -> None:
    sent = plain(NOW_MS, producer_id=7, producer_epoch=3, base_sequence=11, transactional=True)
    valid = validate(memoryview(sent), BatchRules(compression_type="zstd"), NOW_MS, api_version=13)
    header = valid.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert not header.is_control


def test_a_batch_that_grows_by_the_topics_compression_is_checked_again() -> None:
    sent = bytearray(build_batch([NewRecord(b"k", bytes(5000), (), NOW_MS)], codec=Codec.GZIP))
    rules = BatchRules(max_message_bytes=5200, compression_type="uncompressed")
    assert len(validate(memoryview(sent), rules, NOW_MS, api_version=13).data) > 5000
    rules = BatchRules(max_message_bytes=len(sent), compression_type="uncompressed")
    with pytest.raises(BatchRefused, match="MESSAGE_TOO_LARGE"):
        validate(memoryview(sent), rules, NOW_MS, api_version=13)

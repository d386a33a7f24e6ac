"""Binary format of coordinator records."""

from __future__ import annotations

import pytest

from ottla.coordinator.group import records as group_records
from ottla.coordinator.runtime.codec import DamagedRecord, RecordTable, encode_key, encode_value
from ottla.coordinator.runtime.decision import LogRecord
from tests.support.shards import TABLE, WordKey, word


def test_a_record_survives_a_round_trip() -> None:
    record = word("hut", 5)
    assert TABLE.decode(encode_key(record.key), encode_value(record)) == record


def test_the_prefixes_are_type_and_version() -> None:
    record = word("hut", 5, version=0)
    assert encode_key(record.key) == b"\0\x07\0\x03hut"
    assert encode_value(record) == b"\0\0\0\0\0\x05"


def test_a_null_value_is_a_tombstone() -> None:
    assert TABLE.decode(encode_key(WordKey(word="hut")), None) == LogRecord(WordKey(word="hut"))


def test_an_unknown_type_is_skipped() -> None:
    assert TABLE.decode(b"\0\x09whatever", b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0"),
        (b"\0", b"\0\0"),
        (b"\0\x07\0\x09hut", None),
        (b"\0\x07\0\x03hut", b""),
        (b"\0\x07\0\x03hut", b"\0\0\0"),
        (b"\0\x07\0\x03hut", b"\0\x02\0\0\0\x05"),
    ],
)
def test_an_undecodable_record_raises_damaged_record(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DamagedRecord):
        TABLE.decode(key, value)


def test_a_table_is_built_from_a_module() -> None:
    table = RecordTable(vars(group_records).values())
    key = group_records.OffsetCommitKey(group="g", topic="t", partition=3)
    value = group_records.OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)
    record = LogRecord(key, value, 3)
    assert table.decode(encode_key(key), encode_value(record)) == record

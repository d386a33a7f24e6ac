"""Records as JSON lines: exact in both directions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records.decode import Decoder, Form
from ottla.admin.records.record_json import InvalidRecord, OutgoingRecord, as_dict, from_line, to_line
from ottla.admin.records.scan import ConsumedRecord

contents = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
records = st.builds(
    ConsumedRecord,
    st.just("t"),
    st.integers(0, 100),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 1),
    contents,
    contents,
    st.lists(
        st.tuples(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=5), contents),
        max_size=4,
    ).map(tuple),
)


@given(records)
def test_a_line_is_read_as_the_same_record(record: ConsumedRecord) -> None:
    line = to_line(record)
    assert b"\n" not in line
    timestamp = None if record.timestamp < 0 else record.timestamp
    expected = OutgoingRecord(record.key, record.value, record.headers, record.partition, timestamp)
    assert from_line(line) == expected
    assert from_line(json.dumps(json.loads(line))) == expected


def test_the_members_of_a_line() -> None:
    record = ConsumedRecord("t", 1, 5, 7, 0, None, b"\xff\x00", (("h", b"x"), ("h", None), ("b", b"\xff")))
    assert as_dict(record) == {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "timestamp": 7,
        "key": None,
        "value_base64": "/wA=",
        "headers": [
            {"name": "h", "value": "x"},
            {"name": "h", "value": None},
            {"name": "b", "value_base64": "/w=="},
        ],
    }


def test_a_requested_form_is_nested() -> None:
    record = ConsumedRecord("t", 1, 5, -1, 0, b"k", b'{"a": 1}', ())
    assert as_dict(record, Decoder(Form.JSON)) == {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "key": "k",
        "value": {"a": 1},
        "headers": [],
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{}", OutgoingRecord(None, None)),
        ('{"value": "v"}', OutgoingRecord(None, b"v")),
        ('{"key": 5, "value": {"a": [1, null]}}', OutgoingRecord(b"5", b'{"a":[1,null]}')),
        ('{"value": "", "key": ""}', OutgoingRecord(b"", b"")),
        (
            '{"value": "v", "headers": {"a": "1", "b": null}}',
            OutgoingRecord(None, b"v", (("a", b"1"), ("b", None))),
        ),
        ('{"value": "v", "partition": 3, "timestamp": 9}', OutgoingRecord(None, b"v", (), 3, 9)),
    ],
)
def test_a_line_written_by_hand(line: str, expected: OutgoingRecord) -> None:
    assert from_line(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON"),
        ("[" * 10_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('{"valeu": 1}', "unknown member 'valeu'"),
        ('{"value_base64": "x"}', "value_base64 is not base64"),
        ('{"value_base64": 5}', "value_base64 is not base64"),
        ('{"value_base64": "eA==", "value": "x"}', "both value and value_base64"),
        ('{"partition": -1}', "partition must be"),
        ('{"partition": true}', "partition must be"),
        ('{"timestamp": 1.5}', "timestamp must be"),
        ('{"headers": ["a", "b"]}', "headers are a list"),
        ('{"headers": "a"}', "headers are a list"),
    ],
)
def test_what_is_not_a_record_is_refused(line: str, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message):
        from_line(line)

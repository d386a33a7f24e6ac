"""Formats of records: fields, escapes, line ends."""

from __future__ import annotations

import pytest

from ottla.admin.records.record_format import InvalidFormat, RecordFormat, iso_time
from ottla.admin.records.scan import ConsumedRecord

RECORD = ConsumedRecord("t", 1, 5, 1_794_909_600_123, 0, b"k\xff", b"v", (("a", b"1"), ("b", None)))
EMPTY = ConsumedRecord("t", 1, 6, -1, 0, None, None, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%k %v", b"k\xff v\n"),
        ("%t-%p@%o", b"t-1@5\n"),
        ("%s", b"v\n"),
        ("%K %V %S", b"2 1 1\n"),
        ("%h", b"a=1,b=\n"),
        ("%T %d", b"1794909600123 2026-11-17T10:00:00.123Z\n"),
        ("%v\\n", b"v\n"),
        ("%v\\0", b"v\0"),
        ("%v\\t%%\\x41\\\\", b"v\t%A\\\n"),
        ("é", "é\n".encode()),
        ("", b"\n"),
    ],
)
def test_a_format(text: str, expected: bytes) -> None:
    assert RecordFormat(text).render(RECORD, lambda data: data or b"") == expected


def test_null_is_empty_and_its_size_is_negative() -> None:
    assert (
        RecordFormat("[%k][%v][%h][%d] %K %V %T").render(EMPTY, lambda data: data or b"")
        == b"[][][][] -1 -1 -1\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("a%", "unknown field %"), ("%z", "%z"), ("\\q", "unknown escape"), ("a\\", "unknown escape")],
)
def test_an_unknown_field_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidFormat, match=message):
        RecordFormat(text)


def test_times() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(-1) == ""
    assert iso_time(2**63 - 1) == str(2**63 - 1)

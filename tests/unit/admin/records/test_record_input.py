"""Input of producers: lines, JSON lines and CSV, with the numbers of the lines."""

from __future__ import annotations

import pytest

from ottla.admin.records.record_input import Input, read_records
from ottla.admin.records.record_json import InvalidRecord, OutgoingRecord


def read(text: bytes, form: Input, separator: str | None = None) -> list[tuple[int, OutgoingRecord]]:
    return list(read_records(text.splitlines(keepends=True), form, separator=separator))


def test_lines_are_values() -> None:
    assert read(b"a\r\n\n\xff b\n", Input.LINES) == [
        (1, OutgoingRecord(None, b"a")),
        (2, OutgoingRecord(None, b"")),
        (3, OutgoingRecord(None, b"\xff b")),
    ]


def test_lines_with_keys() -> None:
    assert read(b"k:v:w\n:v\n", Input.LINES, ":") == [
        (1, OutgoingRecord(b"k", b"v:w")),
        (2, OutgoingRecord(b"", b"v")),
    ]
    with pytest.raises(InvalidRecord, match="the separator ':'") as caught:
        read(b"k:v\nv\n", Input.LINES, ":")
    assert caught.value.number == 2


def test_json_lines() -> None:
    assert read(b'{"value": "v"}\n\n{"key": "k"}', Input.JSONL) == [
        (1, OutgoingRecord(None, b"v")),
        (3, OutgoingRecord(b"k", None)),
    ]
    with pytest.raises(InvalidRecord, match="not JSON") as caught:
        read(b"{}\n{\n", Input.JSONL)
    assert caught.value.number == 2


def test_csv() -> None:
    text = b"\xef\xbb\xbfkey,value,partition,timestamp,header.a,value_base64,offset\n"
    text += b'1,"x, ""y""\nz",2,7,h,,5\n,,,,,/w==,\n'
    assert read(text, Input.CSV) == [
        (3, OutgoingRecord(b"1", b'x, "y"\nz', (("a", b"h"),), 2, 7)),
        (4, OutgoingRecord(None, b"\xff")),
    ]
    assert read(b"", Input.CSV) == []


@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        (b"key,colour\n", 1, "unknown column 'colour'"),
        (b"key,value\na\n", 2, "1 cells, but 2 columns"),
        (b"key,partition\na,x\n", 2, "partition must be"),
        (b'key\n"a\n', 2, "unexpected end of data"),
        (b"key\n\xff\n", 2, "not UTF-8"),
        (b"value_base64\n!\n", 2, "value_base64 is not base64"),
    ],
)
def test_wrong_csv_is_refused(text: bytes, number: int, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message) as caught:
        read(text, Input.CSV)
    assert caught.value.number == number

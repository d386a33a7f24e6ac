"""Writers of records: lines for people, formats, JSON, JSON lines, CSV."""

from __future__ import annotations

import io
import json

import pytest

from ottla.admin.records.decode import Form
from ottla.admin.records.scan import ConsumedRecord
from ottla.cli.records.record_output import (
    LINE_BYTES_MAX,
    CsvWriter,
    FormatWriter,
    JsonLinesWriter,
    JsonWriter,
    LineWriter,
    RecordWriter,
)

FIRST = ConsumedRecord(
    "t", 0, 1, 1_794_909_600_000, 0, b"k", b'{"a": "x\\u001b"}', (("h", b"1"), ("n\x1b", None))
)
SECOND = ConsumedRecord("t", 1, 2, -1, 0, None, b"\x1b[31m", ())
THIRD = ConsumedRecord("t", 1, 3, 0, 0, b"", "a\n\u202eb".encode(), ())


def written(make: type[RecordWriter], *options: object, **more: object) -> str:
    out = io.BytesIO()
    writer = make(out, *options, **more)  # type: ignore[arg-type]
    for record in (FIRST, SECOND, THIRD):
        writer.write(record)
    writer.finish()
    return out.getvalue().decode()


def test_lines_are_safe_for_a_terminal() -> None:
    assert written(LineWriter, Form.AUTO).splitlines() == [
        '2026-11-17T10:00:00.000Z t-0@1  k  {"a":"x\\u001b"}  [h=1, n\\x1b=<null>]',
        "- t-1@2  <null>  0x1b5b33316d",
        "1970-01-01T00:00:00.000Z t-1@3  <empty>  a\\n\\u202eb",
    ]
    assert "\x1b[2m" in written(LineWriter, Form.AUTO, color=True)
    assert "\x1b[31m" not in written(LineWriter, Form.TEXT)


def test_a_note_is_shown() -> None:
    out = io.BytesIO()
    LineWriter(out, Form.JSON).write(THIRD._replace(value=b"x" * (LINE_BYTES_MAX + 1)))
    assert out.getvalue().endswith(b" (the first 65536 of 65537 bytes)\n")


def test_a_format_is_exact_in_a_pipe_and_safe_on_a_terminal() -> None:
    assert written(FormatWriter, "%v", Form.AUTO) == '{"a": "x\\u001b"}\n\x1b[31m\na\n\u202eb\n'
    assert (
        written(FormatWriter, "%v", Form.AUTO, terminal=True) == '{"a":"x\\u001b"}\n1b5b33316d\na\n\\u202eb\n'
    )
    assert written(FormatWriter, "%v", Form.HEX).splitlines()[1] == "1b5b33316d"


def test_json() -> None:
    lines = [json.loads(line) for line in written(JsonLinesWriter, Form.AUTO).splitlines()]
    assert [line["offset"] for line in lines] == [1, 2, 3]
    assert lines[0]["value"] == '{"a": "x\\u001b"}'
    assert json.loads(written(JsonWriter, Form.AUTO)) == lines
    assert json.loads(written(JsonLinesWriter, Form.JSON).splitlines()[0])["value"] == {"a": "x\x1b"}
    out = io.BytesIO()
    JsonWriter(out, Form.AUTO).finish()
    assert json.loads(out.getvalue()) == []


@pytest.mark.parametrize(
    ("form", "value"), [(Form.AUTO, '"{""a"": ""x\\u001b""}"'), (Form.HEX, b'{"a": "x\\u001b"}'.hex())]
)
def test_csv(form: Form, value: str) -> None:
    lines = written(CsvWriter, form).splitlines()
    assert lines[0] == "topic,partition,offset,timestamp,key,key_base64,value,value_base64"
    assert lines[1] == f"t,0,1,1794909600000,{'k' if form is Form.AUTO else '6b'},,{value},"

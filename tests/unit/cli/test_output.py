"""Rows and documents in each format."""

from __future__ import annotations

import json

import pytest

from ottla.base.errors import LocalError
from ottla.cli.output import (
    Column,
    Output,
    Section,
    bytes_text,
    count_text,
    number,
    seconds_text,
    text_of,
    time_text,
)

COLUMNS = (Column("name"), number("size_bytes", "size", bytes_text), Column("replicas"))
ROWS = [
    {"name": "a", "size_bytes": 2048, "replicas": [1, 2], "more": 1},
    {"name": "b, c", "size_bytes": None, "replicas": []},
]


def test_a_table_is_aligned_and_not_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    Output("table").rows(COLUMNS, [*ROWS, {"name": long, "size_bytes": 0}])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "REPLICAS"]
    assert lines[1].split() == ["a", "2.0", "KiB", "1", "2"]
    assert lines[3].startswith(long)
    assert lines[1].index("KiB") + 3 == lines[3].index("0 B") + 3 == lines[0].index("SIZE") + 4


def test_rows_as_json_have_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").rows(COLUMNS, ROWS)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a", "size_bytes": 2048, "replicas": [1, 2]},
        {"name": "b, c", "size_bytes": None, "replicas": []},
    ]
    Output("jsonl").rows(COLUMNS, ROWS)
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["a", "b, c"]


def test_rows_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    Output("csv").rows(COLUMNS, ROWS)
    assert capsys.readouterr().out == 'name,size_bytes,replicas\na,2048,1 2\n"b, c",,\n'


def test_without_rows_programs_get_an_empty_list_and_people_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output("json").rows(COLUMNS, [], empty="none")
    assert json.loads(capsys.readouterr().out) == []
    Output("table").rows(COLUMNS, [], empty="none")
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "none\n")


def test_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    facts, sections = {"topic": "t", "id": None}, [Section("partitions", COLUMNS, ROWS)]
    Output("jsonl").document(facts, sections)
    assert json.loads(capsys.readouterr().out)["partitions"][0]["name"] == "a"
    Output("table").document(facts, sections)
    assert capsys.readouterr().out.splitlines()[:3] == ["topic: t", "id:    -", ""]
    Output("csv").document(facts, sections)
    assert capsys.readouterr().out.startswith("name,size_bytes")
    Output("csv").document(facts)
    assert capsys.readouterr().out == "topic,id\nt,\n"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(LocalError, match="table, json, jsonl, csv, not yaml"):
        Output("yaml")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.44, "0.4s"),
        (12.3, "12s"),
        (200, "3m 20s"),
        (7500, "2h 5m"),
        (360_000, "4d 4h"),
        (None, "-"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    assert seconds_text(value) == text


def test_values_in_tables() -> None:
    assert [bytes_text(each) for each in (0, 1023, 1024, 5 << 30, -1)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 GiB",
        "-",
    ]
    assert count_text(1234567) == "1,234,567"
    assert time_text(1_600_000_000_123) == "2020-09-13T12:26:40.123Z"
    assert time_text(1 << 62) == str(1 << 62)
    assert [text_of(each) for each in (None, True, [], (1, 2))] == ["-", "yes", "-", "1 2"]

"""The options of `ottla produce`: which records they make, and which contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.admin.records.record_input import Input
from ottla.admin.records.record_json import OutgoingRecord
from ottla.cli.records.produce import InvalidOptions, ProduceOptions


def records(lines: bytes = b"", **options: Any) -> list[OutgoingRecord]:
    made = ProduceOptions("t", **options)
    made.check()
    return [record for _, record in made.records(lines.splitlines(keepends=True))]


def test_one_record_from_options() -> None:
    assert records(value="v", key="k", headers=("a=1", "a=", "b"), partition=2) == [
        OutgoingRecord(b"k", b"v", (("a", b"1"), ("a", b""), ("b", None)), 2)
    ]
    assert records(null=True) == [OutgoingRecord(None, None)]
    assert records(value="") == [OutgoingRecord(None, b"")]


def test_records_from_the_input() -> None:
    assert records(b"a\nb\n", key="k", headers=("h=1",), partition=1) == [
        OutgoingRecord(b"k", b"a", (("h", b"1"),), 1),
        OutgoingRecord(b"k", b"b", (("h", b"1"),), 1),
    ]
    assert records(b"k=v\n", separator="=") == [OutgoingRecord(b"k", b"v")]
    lines = b'{"key": "own", "value": "v", "partition": 3, "headers": {"x": "y"}}\n{"value": "w"}\n'
    assert records(lines, input=Input.JSONL, key="k", headers=("h",)) == [
        OutgoingRecord(b"own", b"v", (("x", b"y"), ("h", None)), 3),
        OutgoingRecord(b"k", b"w", (("h", None),)),
    ]
    assert records(lines, input=Input.JSONL, partition=0)[0].partition == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value": "v", "null": True}, "-v and --null"),
        ({"headers": ("=x",)}, "has no name"),
        ({"separator": ":", "input": Input.JSONL}, "-K separates"),
        ({"separator": ":", "value": "v"}, "-K separates"),
        ({"separator": ""}, "-K needs a separator"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptions, match=message):
        ProduceOptions("t", **options).check()

"""Fetched batches to matching records: the same records as with a filter applied to each of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records import scan as scanning
from ottla.admin.records.scan import Chunk, ConsumedRecord, scan
from ottla.admin.records.where import Filter, compile_filter
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_control_batch
from ottla.records.record import Header

TP = TopicPartition("t", 3)


def chunks(data: bytes, start: int, end: int, where: Filter | None = None) -> list[Chunk]:
    return list(scan(TP, memoryview(data), start, end, [], where))


def records_of(found: Sequence[Chunk]) -> list[ConsumedRecord]:
    return [record for chunk in found for record in chunk.records]


def test_a_record_has_all_its_parts() -> None:
    headers = (Header("a", b"1"), Header("a", None), Header("b", b""))
    batch = build_batch([NewRecord(None, None, headers, 5), NewRecord(b"", b"\xff", (), 7)], base_offset=40)
    assert records_of(chunks(batch, 0, 100)) == [
        ConsumedRecord("t", 3, 40, 5, 0, None, None, (("a", b"1"), ("a", None), ("b", b""))),
        ConsumedRecord("t", 3, 41, 7, 0, b"", b"\xff", ()),
    ]


def test_the_range_and_the_next_offset() -> None:
    data = b"".join(build_batch([NewRecord(None, b"x", (), at)] * 3, base_offset=at) for at in (0, 3, 9))
    found = chunks(data, 1, 10)
    assert [record.offset for record in records_of(found)] == [1, 2, 3, 4, 5, 9]
    assert found[-1].next_offset == 10
    assert (found[0].first_timestamp, found[-1].last_timestamp) == (0, 9)
    last = chunks(data, 6, 9)[-1]
    assert (last.records, last.next_offset) == ([], 9)
    assert chunks(data[:-1], 0, 100)[-1].next_offset == 6
    assert chunks(b"", 0, 100) == []


def test_markers_give_no_records_but_move_the_offset() -> None:
    marker = build_control_batch(ControlType.COMMIT, bytes(6), timestamp=7, base_offset=5)
    (chunk,) = chunks(marker, 5, 100)
    assert (chunk.records, chunk.next_offset, chunk.last_timestamp) == ([], 6, None)


def test_a_filter_decodes_only_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[frozenset[str]] = []
    decode = columns.decode

    def spy(*args: object, **options: object) -> object:
        wanted.append(options["wanted"])  # type: ignore[arg-type]
        return decode(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scanning.columns, "decode", spy)
    batch = build_batch([NewRecord(b"k", b"v", (), 5)])
    assert records_of(chunks(batch, 0, 1, compile_filter("key = 'other'", 0))) == []
    assert wanted == [{columns.OFFSET, columns.TIMESTAMP, columns.KEY}]
    wanted.clear()
    assert len(records_of(chunks(batch, 0, 1, compile_filter("key = 'k'", 0)))) == 1
    assert wanted == [
        {columns.OFFSET, columns.TIMESTAMP, columns.KEY},
        {columns.VALUE, columns.HEADERS, columns.TIMESTAMP_TYPE},
    ]


texts = st.sampled_from(
    [b"", b"goal", b"go", b"al", b"xgoalx", b'{"a":"goal"}', b'{"a":"go\\u0061l"}', b'{"a":1}', None]
)
rows = st.lists(
    st.builds(
        NewRecord,
        texts,
        texts,
        st.lists(st.builds(Header, st.sampled_from("ab"), texts), max_size=2).map(tuple),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=12,
)
filters = st.sampled_from(
    [
        "value = 'goal'",
        "value ~ '*goal*'",
        "value.a = 'goal'",
        "value.a ~ 'go*'",
        "key = 'goal' and value = 'goal'",
        "headers.a = 'goal'",
        "value = null",
        "not value.a",
        "timestamp > 25 or key ~ 'go*'",
        "offset = 3",
        "partition = 3",
    ]
)


@given(
    st.lists(rows, min_size=1, max_size=3),
    filters,
    st.sampled_from(Codec),
    st.integers(0, 8),
    st.integers(0, 30),
)
def test_a_search_finds_what_the_filter_matches(
    batches: list[list[NewRecord]], text: str, codec: Codec, start: int, end: int
) -> None:
    data, offset = b"", 0
    for records in batches:
        data += build_batch(records, base_offset=offset, codec=codec)
        offset += len(records) + 1
    where = compile_filter(text, 0)
    everything = records_of(chunks(data, start, end))
    assert records_of(chunks(data, start, end, where)) == [
        one for one in everything if where.matches(one.row())
    ]

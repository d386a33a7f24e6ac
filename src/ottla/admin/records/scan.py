"""Fetched batches to the records that match a filter. Pure.

A search decodes only the columns that its filter needs, and the other columns only of chunks in which a record matches.
If the filter requires a text in keys or values (`Filter.needles`), that text is first searched in the column as a
whole; most records of a search are never touched one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.admin.records.where import Filter, Needle, Row
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.records.column_buffers import BYTES_LIMIT_MAX, BinaryColumn, DecodedColumns

ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 4 << 20
_NO_LIMIT: Final = 1 << 31
_OF_ROOT: Final = {"key": columns.KEY, "value": columns.VALUE, "headers": columns.HEADERS}

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumedRecord(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970; -1 if the record has none."""
    timestamp_type: int
    """0: set by the producer, 1: by the broker when it appended the record."""
    key: bytes | None
    value: bytes | None
    headers: Headers

    def row(self) -> Row:
        """The record as filters see it."""
        return Row(
            self.topic, self.partition, self.offset, self.timestamp, self.key, self.value, self.headers
        )

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        content = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + content


class Chunk(NamedTuple):
    """The records of a part of fetched data."""

    records: list[ConsumedRecord]
    next_offset: int
    size: int = 0
    """Bytes of the batches that were read."""
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    """The timestamps of the first and the last record, matching or not; None if there was no record."""


def scan(
    tp: TopicPartition,
    data: memoryview,
    start_offset: int,
    end_offset: int,
    aborted: Sequence[tuple[int, int]],
    where: Filter | None,
) -> Iterator[Chunk]:
    """The matching records from `start_offset` up to `end_offset`, in chunks. Raise CorruptBatch."""
    wanted = _wanted(where)
    while data and start_offset < end_offset:
        decoded = columns.decode(
            data,
            start_offset=start_offset,
            end_offset=end_offset,
            wanted=wanted,
            aborted=aborted,
            limit_rows=ROWS_MAX,
            limit_bytes=BYTES_MAX,
        )
        if not decoded.consumed and decoded.next_offset == start_offset:
            return
        rows = _Rows(tp, decoded)
        matched: Iterable[int] = range(decoded.rows) if where is None else _matching(rows, where)
        found = list(matched)
        if found and where is not None:
            rest = columns.decode(
                data,
                start_offset=start_offset,
                end_offset=decoded.next_offset,
                wanted=columns.ALL_COLUMNS - wanted,
                aborted=aborted,
                limit_rows=_NO_LIMIT,
                limit_bytes=BYTES_LIMIT_MAX,
            )
            rows.add(rest)
        yield Chunk(
            [rows.record(index) for index in found],
            decoded.next_offset,
            decoded.consumed,
            rows.timestamp(0) if rows.count else None,
            rows.timestamp(rows.count - 1) if rows.count else None,
        )
        start_offset = decoded.next_offset
        data, aborted = data[decoded.consumed :], decoded.aborted


def _wanted(where: Filter | None) -> frozenset[str]:
    if where is None:
        return columns.ALL_COLUMNS
    needed = {_OF_ROOT[root] for root in where.columns if root in _OF_ROOT}
    return frozenset({columns.OFFSET, columns.TIMESTAMP, *needed})


def _matching(rows: _Rows, where: Filter) -> Iterator[int]:
    candidates: Iterable[int] = range(rows.count)
    for needle in where.needles:
        found = rows.containing(needle)
        if found is not None:
            candidates = found
            break
    return (index for index in candidates if where.matches(rows.row(index)))


class _Binary:
    """Access to the rows of a binary column."""

    def __init__(self, column: BinaryColumn) -> None:
        self.offsets = memoryview(column.offsets).cast("B").cast("i")
        self.data = column.data if isinstance(column.data, bytes | bytearray) else bytes(column.data)
        self._validity = column.validity

    def __getitem__(self, index: int) -> bytes | None:
        if self._validity is not None and not self._validity[index >> 3] >> (index & 7) & 1:
            return None
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]])

    def rows_containing(self, text: bytes) -> Iterator[int]:
        """The rows that contain a text, and those at whose end it begins: the caller looks at each of them."""
        data, offsets = self.data, self.offsets
        position = data.find(text)
        while position >= 0:
            row = bisect_right(offsets, position) - 1
            yield row
            position = data.find(text, offsets[row + 1])


class _Rows:
    """The rows of decoded columns."""

    def __init__(self, tp: TopicPartition, decoded: DecodedColumns) -> None:
        self.count = decoded.rows
        self._topic, self._partition = tp
        self._keys: _Binary | None = None
        self._values: _Binary | None = None
        self._headers: tuple[memoryview, _Binary, _Binary] | None = None
        self._types: memoryview | None = None
        self._offsets = _numbers(decoded.offset)
        self._micros = _numbers(decoded.timestamp)
        self.add(decoded)

    def add(self, decoded: DecodedColumns) -> None:
        """Add columns of the same rows that were not decoded before."""
        if decoded.key is not None:
            self._keys = _Binary(decoded.key)
        if decoded.value is not None:
            self._values = _Binary(decoded.value)
        if decoded.timestamp_type is not None:
            self._types = memoryview(decoded.timestamp_type).cast("B").cast("i")
        if decoded.headers is not None:
            entries = memoryview(decoded.headers.offsets).cast("B").cast("i")
            self._headers = entries, _Binary(decoded.headers.keys), _Binary(decoded.headers.values)

    def timestamp(self, index: int) -> int:
        return int(self._micros[index]) // 1000

    def containing(self, needle: Needle) -> Iterator[int] | None:
        """The rows whose key or value contains a text; None if that cannot be found without parsing."""
        column = self._keys if needle.column == "key" else self._values
        if column is None or (needle.is_json and b"\\" in column.data):
            return None
        return column.rows_containing(needle.text)

    def row(self, index: int) -> Row:
        return Row(
            self._topic,
            self._partition,
            self._offsets[index],
            self._micros[index] // 1000,
            None if self._keys is None else self._keys[index],
            None if self._values is None else self._values[index],
            () if self._headers is None else self._headers_of(index),
        )

    def record(self, index: int) -> ConsumedRecord:
        row = self.row(index)
        kind = 0 if self._types is None else self._types[index]
        headers = () if self._headers is None else self._headers_of(index)
        return ConsumedRecord(
            row.topic, row.partition, row.offset, row.timestamp, kind, row.key, row.value, headers
        )

    def _headers_of(self, index: int) -> Headers:
        if self._headers is None:
            return ()
        entries, names, values = self._headers
        return tuple(
            ((names[entry] or b"").decode("utf-8", "replace"), values[entry])
            for entry in range(entries[index], entries[index + 1])
        )


def _numbers(column: bytes | bytearray | memoryview | None) -> memoryview:
    return memoryview(column or b"").cast("B").cast("q")

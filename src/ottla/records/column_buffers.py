"""Records as columns: buffers that represent many records, in Arrow's memory layout.

Nothing here imports Arrow: its layout is plain bytes, which `pyarrow.Array.from_buffers` takes without copying.
All numbers are little-endian, as on every supported platform.

    validity   one bit per row, lowest bit first, 1 = there is a value; None when no row lacks one
    offsets    int32, one more than rows: row i is data[offsets[i]:offsets[i + 1]]
    data       the bytes of all rows one after another

`start` is Arrow's offset of an array: the row within the buffers that counts as row 0. Columns made here start at 0;
columns from Spark may not. Values are immutable.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.records.batch import Buffer, CorruptBatch

KEY: Final = "key"
VALUE: Final = "value"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_TYPE: Final = "timestampType"
HEADERS: Final = "headers"
ALL_COLUMNS: Final = frozenset({KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS})
"""The columns that `decode` can return, by the names of the JVM connector's schema."""

ROWS_LIMIT: Final = 10_000
BYTES_LIMIT: Final = 4 << 20
"""Small enough that the allocator reuses the same memory: new pages cost more than decoding into them."""
BYTES_LIMIT_MAX: Final = 1 << 30
"""With this and one more batch, positions still fit into Arrow's int32 offsets."""

MICROSECONDS_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
MICROSECONDS_MIN: Final = -0x8000_0000_0000_0000


class BinaryColumn(NamedTuple):
    """Arrow's `binary` (or `string`)."""

    offsets: Buffer
    data: Buffer
    validity: Buffer | None = None
    nulls: int = 0
    start: int = 0


class HeadersColumn(NamedTuple):
    """Arrow's `list<struct<key: string, value: binary>>`; a record without headers is null, as in the JVM connector."""

    offsets: Buffer
    keys: BinaryColumn
    values: BinaryColumn
    validity: Buffer | None = None
    nulls: int = 0
    start: int = 0

    @property
    def entries(self) -> int:
        """How many headers all rows have together: the length of the child arrays."""
        return len(self.keys.offsets) // 4 - 1


class DecodedColumns(NamedTuple):
    """What was read from one partition's fetched bytes. A column that was not requested is None.

    To continue in the same bytes: `decode(data[consumed:], start_offset=next_offset, aborted=aborted, ...)`.
    To fetch on: at `next_offset`, with the aborted transactions of the new response.
    """

    rows: int
    next_offset: int
    """The first offset that was not looked at; `end_offset` when that was reached."""
    consumed: int
    """Bytes of the data that are done with; less than all of them at a limit, or when the last batch is cut off."""
    aborted: list[tuple[int, int]]
    """The aborted transactions (producer id, first offset) whose end was not reached."""
    key: BinaryColumn | None = None
    value: BinaryColumn | None = None
    offset: Buffer | None = None
    """int64"""
    timestamp: Buffer | None = None
    """int64, microseconds since 1970; values above 64 bits are set to the limit"""
    timestamp_type: Buffer | None = None
    """int32: 0 create time, 1 log append time"""
    headers: HeadersColumn | None = None


def corrupt(base_offset: int, fault: str) -> CorruptBatch:
    """The error of a batch that cannot be read; both decoders raise it with the same words."""
    return CorruptBatch(f"batch at offset {base_offset}: {fault}")

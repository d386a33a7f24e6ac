"""Batches to columns and back: the compiled kernel, or its plain-Python reference where that was not built.

`base.native` selects the kernel, `COMPILED` is True if it is used. `_columns_reference` describes what the
functions do, `column_buffers` what columns are. All functions are pure and may be called from any thread.
"""

from __future__ import annotations

from ottla.base import native
from ottla.records import _columns_reference
from ottla.records.column_buffers import (
    ALL_COLUMNS,
    HEADERS,
    KEY,
    OFFSET,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
    BinaryColumn,
    DecodedColumns,
    HeadersColumn,
)

__all__ = [
    "ALL_COLUMNS",
    "COMPILED",
    "HEADERS",
    "KEY",
    "OFFSET",
    "TIMESTAMP",
    "TIMESTAMP_TYPE",
    "VALUE",
    "BinaryColumn",
    "DecodedColumns",
    "HeadersColumn",
    "decode",
    "encode",
    "end_of",
    "partition_of",
    "rows_by_partition",
]

COMPILED = False
decode = _columns_reference.decode
encode = _columns_reference.encode
end_of = _columns_reference.end_of
partition_of = _columns_reference.partition_of
rows_by_partition = _columns_reference.rows_by_partition

if native.WANTED:
    try:
        from ottla.records import _column_rows, _columns
    except ImportError:
        pass
    else:
        COMPILED = True
        decode, end_of, encode = _columns.decode, _columns.end_of, _column_rows.encode
        partition_of, rows_by_partition = _column_rows.partition_of, _column_rows.rows_by_partition

"""Types of the compiled kernel that makes batches; `_columns_reference.py` describes the functions."""

from ottla.records.batch import Buffer
from ottla.records.column_buffers import BinaryColumn, HeadersColumn

def encode(
    values: BinaryColumn,
    rows: int,
    *,
    keys: BinaryColumn | None = None,
    headers: HeadersColumn | None = None,
    timestamps: Buffer | None = None,
    timestamp_ms: int,
    selection: Buffer | None = None,
    codec: int = 0,
    level: int | None = None,
    max_batch_bytes: int = ...,
) -> list[bytearray]: ...
def partition_of(keys: BinaryColumn, rows: int, partitions: int, *, keyless: int = -1) -> bytearray: ...
def rows_by_partition(chosen: Buffer, partitions: int) -> list[bytearray]: ...

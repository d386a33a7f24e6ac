"""Types of the compiled kernel that reads batches; `_columns_reference.py` describes the functions."""

from collections.abc import Collection, Sequence

from ottla.records.batch import Buffer
from ottla.records.column_buffers import DecodedColumns

def decode(
    data: Buffer,
    *,
    start_offset: int,
    end_offset: int,
    wanted: Collection[str],
    aborted: Sequence[tuple[int, int]] = (),
    limit_rows: int = ...,
    limit_bytes: int = ...,
    check_crc: bool = True,
) -> DecodedColumns: ...
def end_of(data: Buffer, offset: int) -> int: ...

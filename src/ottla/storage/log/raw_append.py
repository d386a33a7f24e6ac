"""Raw appends: batches that carry their offsets and leader epochs, copied from the leader of a partition.

`Log.append_raw` appends them unchanged. One compiled scan (`_raw`) checks as many batches as fit in the active segment
and computes their index entries. A batch that begins a segment or a leader epoch is appended singly (`check_batch`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.base import native
from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import HEADER_SIZE, MAGIC, BatchHeader, CorruptBatch, crc_ok, read_header
from ottla.storage.log import raw_reference

__all__ = ["EPOCH_MAX", "check_batch", "scan_raw"]

EPOCH_MAX: Final = 0x7FFF_FFFF

Scan = Callable[[memoryview, int, raw_reference.RawLimits], raw_reference.Scanned | None]
scan_raw: Scan = raw_reference.scan_raw
if native.WANTED:
    with suppress(ImportError):
        from ottla.storage.log._raw import scan_raw


def check_batch(
    view: memoryview, position: int, *, next_offset: int, epoch_min: int, epoch_max: int
) -> BatchHeader | None:
    """Check the batch at `position`; None if it is not whole, ApiError if it cannot be appended."""
    left = len(view) - position
    if left < HEADER_SIZE:
        return None
    header = read_header(view, position)
    size = header.size_in_bytes
    if size < HEADER_SIZE or header.magic != MAGIC or header.last_offset_delta < 0:
        raise CorruptBatch(f"no batch header at byte {position}: size {size}, magic {header.magic}")
    if size > left:
        return None
    if not crc_ok(view[position : position + size]):
        raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
    if header.base_offset < next_offset:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"offset {header.base_offset} was received where {next_offset} is next",
        )
    epoch = header.partition_leader_epoch
    if 0 <= epoch < epoch_min or epoch > epoch_max:
        raise ApiError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"the batch at offset {header.base_offset} has leader epoch {epoch}, not {epoch_min} to {epoch_max}",
        )
    return header

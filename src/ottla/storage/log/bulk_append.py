"""Bulk appends: several batches that were validated and numbered together and are staged as one write.

`Log.bulk_limits` returns the limits that the batches must observe. The caller builds the batches within them and passes
the result to `Log.append_bulk`, before anything else is appended. The log is left exactly as single appends leave it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.base.files import Buffer

IndexEntry = tuple[int, int, int, int]
"""last offset of a batch, its position in the bulk append, greatest timestamp so far, last offset of its batch"""


class AppendLimits(NamedTuple):
    """The state of a log and the limits for plain batches: uncompressed, without a producer id, CreateTime."""

    next_offset: int
    last_offset_max: int
    bytes_max: int
    leader_epoch: int
    timestamp_min: int
    timestamp_max: int
    bytes_since_entry: int
    """Bytes since the last entry of the sparse indexes."""
    index_interval_bytes: int
    max_message_bytes: int
    keys_required: bool


class BulkAppend(NamedTuple):
    """Consecutive batches with their offsets and leader epoch, and the index entries to add for them."""

    data: Buffer
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    index_entries: list[IndexEntry]
    bytes_since_entry: int

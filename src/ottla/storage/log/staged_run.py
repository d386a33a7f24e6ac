"""Several batches that were checked and stamped together, on their way into a log."""

from __future__ import annotations

from typing import NamedTuple


class StagedRun(NamedTuple):
    """Batches behind each other at consecutive offsets, and what the indexes have to know about them.

    `entries` are index entries to be made: last offset of a batch, its position in the run, the greatest timestamp
    so far, the last offset of the batch that has it.
    """

    data: bytearray
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    entries: list[tuple[int, int, int, int]]
    bytes_since_entry: int

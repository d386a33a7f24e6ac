"""Disk space for records that are going to be written: it is reserved ahead of the writes, in large pieces.

A write beyond the end of a file needs blocks. The file system finds them for each page of the write, and again when the
page is written to the disk; that costs as much as copying the bytes. For a piece of several MiB it costs next to
nothing. Pieces also keep the blocks of a log together while many logs are written at the same time.

The size of the file does not change, so that recovery, truncation and other readers see nothing of it. A segment gets
its first piece when it has `SMALL_BYTES`. A piece is a quarter of what the segment contains, and `PIECE_BYTES_MAX` at
most; none ends after `segment.bytes`. What is left at the end of a sealed segment stays until the segment is deleted.

One job at a time for all logs, in the executor, because the call may wait for the journal of the file system. Nothing
waits for the job: a write that comes before it takes blocks as usual. A job has its own descriptor, so that a log can
be truncated, closed or deleted meanwhile. Failure: nothing is reserved; a write reports what is wrong.

Concurrency: the event loop only.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ottla.base.executor import Executor
from ottla.base.files import File
from ottla.storage.log.log import Log

SMALL_BYTES: Final = 8 * 1024 * 1024
PIECE_BYTES_MAX: Final = 16 * 1024 * 1024
_PAGE_BYTES: Final = 4096


class SpaceReservation:
    """Reserves disk space for the active segments of all logs."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running = False

    def written(self, log: Log) -> None:
        """A write job of a log has succeeded."""
        active = log.segments.active
        size = active.written_size
        if size < SMALL_BYTES or self._running:
            return
        piece = min(size // 4, PIECE_BYTES_MAX)
        start = max(active.reserved_size, size)
        end = min(start + piece, log.config.segment_bytes) // _PAGE_BYTES * _PAGE_BYTES
        if start - size > piece // 2 or end <= start:
            return
        try:
            file = active.file.duplicate()
        except OSError:  # there is no descriptor left
            return
        active.reserved_size = end
        self._running = True
        self._executor.submit(partial(_reserve, file, start, end), self._reserved)

    def _reserved(self, _: BaseException | None) -> None:
        self._running = False


def _reserve(file: File, start: int, end: int) -> None:
    try:
        file.reserve(start, end)
    finally:
        file.close()

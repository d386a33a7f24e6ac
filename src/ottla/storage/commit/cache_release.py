"""Logs that this broker only follows leave the page cache: no client reads here what was just written.

New pages for the page cache are the largest cost of a follower's writes. So when a followed log has written a window of
its active segment, the window is passed to the disk (write-behind), and the windows before it, which are on the disk by
then, leave the cache (drop-behind): their pages are used for the next windows. The windows of a segment begin at
multiples of `WINDOW_BYTES`, so that the page at the end of the file, which the next write changes, is in none of them.
Each time everything before the last window leaves the cache: what was not on the disk yet leaves it the next time. The
rest of a sealed segment leaves it with the first window of the next one.

Not released are logs that this broker leads, compacted logs, which the cleaner reads again, and segments of less than
two windows. There is no `CacheRelease` at all if consumers read from followers (KIP-392).

The calls may block while the disk is busy: they run in the executor, one at a time for all logs, so that they
occupy one thread of it at most. Nothing waits for them. A job has its own descriptors, so that a log can be
truncated, closed or deleted meanwhile.

Concurrency: the event loop only. Failure: a write to the disk that cannot be started takes the directory offline, as
any failed write does. One that fails later is reported by the next sync.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ottla.base.errors import StorageFault
from ottla.base.executor import Executor
from ottla.base.files import File
from ottla.storage.log.log import Log
from ottla.storage.log.segment import WINDOW_BYTES, Segment


class CacheRelease:
    """Releases the page cache of all logs that this broker only follows."""

    def __init__(self, executor: Executor, on_fault: Callable[[StorageFault], None]) -> None:
        self._executor = executor
        self._on_fault = on_fault
        self._due: dict[Log, None] = {}
        self._running = False

    def written(self, log: Log) -> None:
        """A write job of a followed log has succeeded."""
        active = log.segments.active
        if active.written_size - active.released_size >= WINDOW_BYTES and not log.config.compacted:
            self._due[log] = None
            self._start_next()

    def _start_next(self) -> None:
        """Start the job of the log that has waited longest, unless one is running."""
        while self._due and not self._running:
            log = next(iter(self._due))
            del self._due[log]
            job = _take_job(log)
            if job is not None:
                self._running = True
                self._executor.submit(job.run, partial(self._released, log))

    def _released(self, log: Log, failure: BaseException | None) -> None:
        self._running = False
        if failure is not None and not log.closed:
            log.fail()
            self._on_fault(StorageFault(log.log_dir, failure))
        self._start_next()


class _Region(NamedTuple):
    """The arguments of one `File.release`."""

    file: File
    kept_from: int
    end: int


class _ReleaseJob:
    """Release regions of files, and close these handles of them."""

    __slots__ = ("_regions",)

    def __init__(self) -> None:
        self._regions: list[_Region] = []

    def add(self, segment: Segment, kept_from: int, end: int) -> None:
        with suppress(OSError):  # there may be no descriptor left
            self._regions.append(_Region(segment.file.duplicate(), kept_from, end))

    def run(self) -> None:
        try:
            for file, kept_from, end in self._regions:
                file.release(kept_from, end)
        finally:
            for file, _, _ in self._regions:
                file.close()


def _take_job(log: Log) -> _ReleaseJob | None:
    """The job for the windows that were written since the last one; None if the log has changed since it was due."""
    if log.closed or log.offline or log.truncating or not log.is_copy:
        return None
    active = log.segments.active
    start, end = active.released_size, active.written_size // WINDOW_BYTES * WINDOW_BYTES
    if end <= start:
        return None
    active.released_size = end
    job = _ReleaseJob()
    if start == WINDOW_BYTES and len(log.segments) > 1:
        sealed = log.segments[-2]
        job.add(sealed, sealed.size, sealed.size)
    job.add(active, start, end)
    return job

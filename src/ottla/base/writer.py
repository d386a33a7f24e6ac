"""Writing beside the event loop, for the one kind of work that every acknowledged record needs.

`Writer` is the port: write these buffers at that position, sync if required, and report the result on the loop.
`ExecutorWriter` does it with any `Executor`; it is the reference, and what simulations use. `NativeWriter`
does the same with threads that never take the interpreter's lock: under load, a Python thread that wakes up
for each write costs the loop more than the write itself.

A small write that need not be synced only copies into the page cache, faster than waking a thread: it is done
at once, as long as the disk keeps up. When one takes longer than `_STALL_SECONDS` (the kernel makes writers
wait while it writes back) the following writes are done by the threads, until `_WARY_SECONDS` have passed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from ottla.base import native
from ottla.base.clock import Clock
from ottla.base.executor import Done, Executor
from ottla.base.files import Buffer, File, OsFile

_INLINE_BYTES_MAX: Final = 64 * 1024
_STALL_SECONDS: Final = 0.002
_WARY_SECONDS: Final = 0.5


class Writer(Protocol):
    def write(self, file: File, buffers: list[Buffer], position: int, sync: bool, done: Done) -> None:
        """Write all of it, then call `done` on the loop with the OSError it met, or None."""
        ...


class ExecutorWriter:
    """Writes as work of an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def write(self, file: File, buffers: list[Buffer], position: int, sync: bool, done: Done) -> None:
        self._executor.submit(partial(file.pwritev, buffers, position, sync=sync), done)

    def close(self) -> None:
        """There is nothing to close; the executor is closed by its owner."""


class NativeWriter:
    """Writes in compiled threads, or at once where that is faster. `watch` is the loop's add_reader."""

    def __init__(
        self, watch: Callable[[int, Callable[[], None]], object], clock: Clock, threads: int
    ) -> None:
        from ottla.base._writer import WriterThreads

        self._clock = clock
        self._wary_until = 0.0
        self._ended: deque[tuple[Done, int]] = deque()
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._threads = WriterThreads(threads, self._event)
        watch(self._event, self._deliver)

    def write(self, file: File, buffers: list[Buffer], position: int, sync: bool, done: Done) -> None:
        if not sync and sum(map(len, buffers)) <= _INLINE_BYTES_MAX:
            started = self._clock.monotonic()
            if started >= self._wary_until:
                self._write_now(file, buffers, position, done, started)
                return
        if not isinstance(file, OsFile):
            raise TypeError(f"{file!r} has no descriptor")
        self._threads.write(file.fileno(), buffers, position, sync, done)

    def _write_now(
        self, file: File, buffers: list[Buffer], position: int, done: Done, started: float
    ) -> None:
        failure: OSError | None = None
        try:
            file.pwritev(buffers, position)
        except OSError as error:
            failure = error
        ended = self._clock.monotonic()
        if ended - started > _STALL_SECONDS:
            self._wary_until = ended + _WARY_SECONDS
        done(failure)

    def _deliver(self) -> None:
        os.eventfd_read(self._event)
        try:
            self._report()
        finally:
            if self._ended:  # after an exception of one callback: the others are called in the next iteration
                os.eventfd_write(self._event, 1)

    def _report(self) -> None:
        ended = self._ended
        ended.extend(self._threads.take())
        while ended:
            done, error = ended.popleft()
            done(OSError(error, os.strerror(error)) if error else None)

    def close(self) -> None:
        """Finish what is queued; what ended since the last iteration of the loop is still reported."""
        self._threads.close()
        self._report()
        os.close(self._event)


def make_writer(
    watch: Callable[[int, Callable[[], None]], object], clock: Clock, executor: Executor, threads: int
) -> ExecutorWriter | NativeWriter:
    """The compiled writer, or the reference where that was not built or is not wanted."""
    if native.WANTED:
        try:
            return NativeWriter(watch, clock, threads)
        except ImportError:
            pass
    return ExecutorWriter(executor)

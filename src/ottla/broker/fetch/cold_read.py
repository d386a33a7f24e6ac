"""The read of records that are not in the page cache, in a worker thread.

Meanwhile the log may be truncated, and its segments removed: a leader that another one has replaced follows it at once.
The read has a descriptor of its own, which a removal does not close. Bytes of a log that was truncated since are not
sent, and a file that has become shorter is then no failure of the disk.

Concurrency: `load` runs in a worker thread, the rest on the event loop.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.base.errors import StorageFault
from ottla.storage.log.log_slice import LogSlice

if TYPE_CHECKING:
    from ottla.base.files import File
    from ottla.storage.log.log import Log


class ColdRead:
    """One slice that is read into `view`."""

    __slots__ = ("_file", "_log", "_slice", "_truncations", "_view", "fault")

    def __init__(self, log: Log, found: LogSlice, view: memoryview) -> None:
        self.fault: StorageFault | None = None
        self._log = log
        self._truncations = log.truncations
        self._view = view
        self._file: File | None = None
        self._slice = found
        with suppress(OSError):  # no descriptor is free
            self._file = found.file.duplicate()
            self._slice = LogSlice(self._file, found.position, found.size, found.log_dir)

    def load(self) -> None:
        """Read the bytes; `fault` is the error, if there is one."""
        try:
            self._slice.load(self._view, wait=True)
        except StorageFault as fault:
            self.fault = fault

    def close(self) -> None:
        """The read is complete."""
        if self._file is not None:
            self._file.close()

    @property
    def is_truncated(self) -> bool:
        """Whether the log has been truncated since the read was planned."""
        return self._log.truncations != self._truncations

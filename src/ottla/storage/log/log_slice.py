"""The result of a read of a log: where the bytes are, and how they are loaded.

No byte is copied before `load`; large slices are sent to the socket from the file itself. A `StagedSlice` has bytes
that are being written: only followers read them, and the leader does not count them before they are written here.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

import msgspec

from ottla.base.errors import StorageFault
from ottla.base.files import Buffer, File


class LogSlice(msgspec.Struct, gc=False, frozen=True):
    """`size` bytes of batches at `position` of a segment's file.

    The first batch is complete unless the slice is empty; the last may be cut off, as clients expect. The first batch
    may begin before the requested offset.
    """

    file: File
    position: int
    size: int
    log_dir: str

    def load(self, buffer: memoryview, *, wait: bool) -> bool:
        """Read the slice into `buffer`, which has its size; raises StorageFault.

        With `wait`, in a worker thread, all bytes are read. Without, only from the page cache: False if not all of
        them are there.
        """
        try:
            got = self.file.pread_into(buffer, self.position, wait=wait)
            if got == self.size:
                return True
            if wait:
                raise OSError(errno.EIO, "a segment is shorter than its log")
        except OSError as error:
            raise StorageFault(self.log_dir, error) from error
        return False

    def read(self) -> bytes:
        """The bytes; raises StorageFault."""
        try:
            return self.file.pread(self.size, self.position) if self.size else b""
        except OSError as error:
            raise StorageFault(self.log_dir, error) from error


class StagedSlice(msgspec.Struct, gc=False, frozen=True):
    """All batches of the write job that is running, which ends at `end_offset`.

    It must be loaded before the job is done: the memory of its buffers may be reused then.
    """

    buffers: Sequence[Buffer]
    size: int
    end_offset: int

    def load(self, buffer: memoryview, *, wait: bool) -> bool:
        """Copy the bytes into `buffer`, which has their size."""
        position = 0
        for each in self.buffers:
            end = position + len(each)
            buffer[position:end] = each
            position = end
        return True

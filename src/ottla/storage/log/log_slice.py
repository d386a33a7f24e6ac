"""What a read of a log returns.

A place in a file, so that the bytes go from there to the socket untouched.
"""

from __future__ import annotations

import msgspec

from ottla.base.files import File


class LogSlice(msgspec.Struct, gc=False, frozen=True):
    """`size` bytes of batches at `position`.

    The first batch is whole unless the slice is empty; the last may be cut off, as clients expect.
    `base_offset` is that of the first batch, which may lie before the offset asked for.
    """

    file: File
    position: int
    size: int
    base_offset: int

    def read(self) -> bytes:
        """The bytes. OSError goes to the caller, who knows the log."""
        return self.file.pread(self.size, self.position) if self.size else b""

"""Buffers whose memory is allocated with their first use.

A `bytearray` occupies its whole size at once, because Python fills it with zeros. A receive buffer of a node is large
for requests that rarely arrive: an idle node never uses most of it.
"""

from __future__ import annotations

import mmap


def lazy_buffer(size: int) -> memoryview:
    """A writable buffer of zeros. Its pages take memory from their first use on."""
    return memoryview(mmap.mmap(-1, size))

"""Buffers that cost less than a new `bytearray`, which Python fills with zeros.

A lazy buffer takes memory from its first use on: a receive buffer of a node is large for requests that rarely arrive,
and an idle node never uses most of it. An uninitialized buffer is filled by its user at once: for a large frame,
filling it with zeros before costs as much as receiving it.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable

from ottla.base import native


def lazy_buffer(size: int) -> memoryview:
    """A writable buffer of zeros. Its pages take memory from their first use on."""
    return memoryview(mmap.mmap(-1, size))


def _zeros(size: int) -> bytearray:
    return bytearray(size)


uninitialized: Callable[[int], bytearray] = _zeros
"""A buffer of any content, which must be filled before it is read."""

if native.WANTED:
    try:
        from ottla.base import _buffers
    except ImportError:
        pass
    else:
        uninitialized = _buffers.uninitialized

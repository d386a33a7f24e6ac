"""Buffers that take no memory before they are used, or are not filled with zeros."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base import buffers
from ottla.base.buffers import lazy_buffer

SIZE = 64 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_a_buffer_is_writable_and_filled_with_zeros() -> None:
    buffer = lazy_buffer(10)
    assert bytes(buffer) == bytes(10)
    buffer[3:5] = b"ab"
    assert bytes(buffer) == b"\0\0\0ab\0\0\0\0\0"


def test_an_unused_buffer_takes_no_memory() -> None:
    before = resident_bytes()
    buffer = lazy_buffer(SIZE)
    assert resident_bytes() - before < SIZE // 4
    assert len(buffer) == SIZE


@pytest.mark.parametrize("allocate", [buffers.uninitialized, buffers._zeros])
@pytest.mark.parametrize("size", [0, 1, 5 << 20])
def test_an_uninitialized_buffer_has_its_size_and_keeps_what_is_written(
    allocate: Callable[[int], bytearray], size: int
) -> None:
    buffer = allocate(size)
    assert isinstance(buffer, bytearray)
    assert len(buffer) == size
    buffer[:] = b"x" * size
    assert buffer == b"x" * size
    with pytest.raises(ValueError, match="negative"):
        allocate(-1)

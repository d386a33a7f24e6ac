"""What the three index files of a segment have in common: fixed-size entries of big-endian integers.

Owns the conversion from a file to columns (one `array` per field, never an object per entry) and back. Entries are
appended in memory and reach the file with `flush`; no file stays open between calls, so ten thousand logs
cost no descriptors here and renaming a segment is a matter of `path`. Nothing is read before an index is
first used.

Files are dense: unlike Kafka, which preallocates the active index and trims it at roll or close, only real
entries are written. A zero tail that Kafka left behind is recognised and cut.

Crash policy: entries carry no checksum. What does not parse or does not increase raises `CorruptIndex`; the
owner resets the index and rebuilds it from the log, which is the only source of truth.

Concurrency: one owner at a time (the task of the log, or the thread it handed a closed segment to).
"""

from __future__ import annotations

import operator
import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar, Final

from ottla.base.errors import OttlaError, invariant
from ottla.base.files import Disk, File

INT32_MAX: Final = 2**31 - 1
_PROBE_BYTES: Final = 64 * 1024


class CorruptIndex(OttlaError):
    """An index file contradicts itself; it must be rebuilt from the log."""


class IndexWrite:
    """A write of the entries that an index file lacks; `run` may be called in a worker thread."""

    __slots__ = ("_cut", "_data", "_disk", "_index", "_path", "_position", "creates")

    def __init__(
        self,
        index: SparseIndex,
        disk: Disk,
        *,
        path: str,
        position: int,
        data: bytearray,
        cut: bool,
        creates: bool,
    ) -> None:
        self._index = index
        self._disk = disk
        self._path = path
        self._position = position
        self._data = data
        self._cut = cut
        self.creates = creates

    def run(self, *, sync: bool) -> None:
        file = self._disk.open(self._path, create=True)
        try:
            if self._cut:
                file.truncate(self._position)
            if self._data:
                file.pwritev([self._data], self._position)
            if sync:
                file.datasync()
        finally:
            file.close()

    def finish(self) -> None:
        """Record the success, on the event loop."""
        self._index.wrote(self._position + len(self._data))


class SparseIndex:
    """Columns of one index file. Subclasses give the fields' type codes and the meaning."""

    fields: ClassVar[tuple[str, ...]]
    entry_bytes: ClassVar[int]
    zero_tail: ClassVar[bool] = True  # whether the file may be preallocated with zeros

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._max_entries = max_bytes // self.entry_bytes
        self._loaded: list[array[int]] | None = None
        self._written = 0  # entries known to be in the file
        self._tail_cut = True  # False while the file may be longer than its entries
        self._has_file = False  # whether the file is known to exist

    @property
    def _columns(self) -> list[array[int]]:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    @property
    def entry_count(self) -> int:
        return len(self._columns[0])

    @property
    def size_bytes(self) -> int:
        return self.entry_count * self.entry_bytes

    @property
    def is_full(self) -> bool:
        return self.entry_count >= self._max_entries

    @property
    def entries_left(self) -> int:
        return self._max_entries - self.entry_count

    @property
    def has_stale_entries(self) -> bool:
        """Whether the file is longer than the entries in memory, until the next `flush`."""
        return not self._tail_cut

    @property
    def has_unwritten_entries(self) -> bool:
        return self._loaded is not None and len(self._loaded[0]) > self._written

    def check(self) -> None:
        """Read the file if that has not happened yet; raises CorruptIndex."""
        _ = self._columns

    def flush(self, *, sync: bool = False) -> None:
        """Bring the file to the state in memory, creating it if it is missing."""
        write = self.take_write()
        write.run(sync=sync)
        write.finish()

    def take_write(self) -> IndexWrite:
        """The write that `flush` would do, to be run elsewhere.

        One at a time, and no entry may be dropped until it has finished.
        """
        columns = self._columns
        new = [column[self._written :] for column in columns]
        return IndexWrite(
            self,
            self._disk,
            path=self.path,
            position=self._written * self.entry_bytes,
            data=_interleave(new, self.entry_bytes),
            cut=not (self._tail_cut and self._written),
            creates=not self._has_file,
        )

    def wrote(self, end: int) -> None:
        """The file now has the entries below byte `end`, and no others."""
        self._written = end // self.entry_bytes
        self._tail_cut = True
        self._has_file = True

    def release(self) -> None:
        """Forget the entries in memory; they are read again when needed. Call after `flush`."""
        if self._loaded is not None:
            invariant(self._written == len(self._loaded[0]), f"unflushed entries of {self.path} released")
            self._loaded = None

    def close(self) -> None:
        """Flush with sync and release."""
        self.flush(sync=True)
        self.release()

    def start_empty(self) -> None:
        """Begin without entries and without a file; the first `flush` creates it."""
        self._loaded = [array(code) for code in self.fields]
        self._written = 0
        self._tail_cut = True

    def reset(self) -> None:
        """Drop all entries without reading the file, to rebuild it."""
        self._loaded = [array(code) for code in self.fields]
        self._written = 0
        self._tail_cut = False

    def _keep(self, count: int) -> None:
        """Drop all entries from number `count` on."""
        columns = self._columns
        if count >= len(columns[0]):
            return
        for column in columns:
            del column[count:]
        if self._written > count:
            self._written = count
            self._tail_cut = False

    def _load(self) -> list[array[int]]:
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return [array(code) for code in self.fields]
        try:
            size = file.size()
            whole = size - size % self.entry_bytes
            length = self._used_bytes(file, whole) if self.zero_tail else whole
            data = file.pread(length, 0) if length else b""
        finally:
            file.close()
        if len(data) != length or (size != whole and length == whole):
            # A cut-off last entry is a crash while writing; after a zero tail it is only padding.
            raise CorruptIndex(f"{self.path}: {size} bytes are not a whole number of entries")
        columns = _split(data, self.fields, self.entry_bytes)
        problem = self._problem(columns)
        if problem:
            raise CorruptIndex(f"{self.path}: {problem}")
        self._written = len(columns[0])
        self._tail_cut = length == size
        self._has_file = True
        return columns

    def _used_bytes(self, file: File, whole: int) -> int:
        """Where the zero tail starts. Entries are never all zero: halve the range until little is left."""
        entry = self.entry_bytes
        low, high = 0, whole // entry
        while (high - low) * entry > _PROBE_BYTES:
            middle = (low + high) // 2
            if any(file.pread(entry, middle * entry)):
                low = middle + 1
            else:
                high = middle
        rest = file.pread((high - low) * entry, low * entry).rstrip(b"\0")
        return (low + -(-len(rest) // entry)) * entry

    def _problem(self, columns: Sequence[array[int]]) -> str | None:
        """What is wrong with entries read from a file, or None."""
        raise AssertionError

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        invariant(0 <= relative <= INT32_MAX, f"offset {offset} does not fit {self.path}")
        return relative

    @staticmethod
    def _count_below(column: array[int], bound: int) -> int:
        return bisect_left(column, bound)


def increases(column: array[int]) -> bool:
    return all(map(operator.lt, column, column[1:]))


def never_decreases(column: array[int]) -> bool:
    return all(map(operator.le, column, column[1:]))


def _interleave(columns: Sequence[array[int]], entry_bytes: int) -> bytearray:
    """Entries of the columns, big endian. Bytes are copied with strides: no step per entry."""
    out = bytearray(entry_bytes * len(columns[0]))
    at = 0
    for column in columns:
        width = column.itemsize
        column_bytes = column.tobytes()
        for byte in range(width):
            source = width - 1 - byte if sys.byteorder == "little" else byte
            out[at + byte :: entry_bytes] = column_bytes[source::width]
        at += width
    return out


def _split(data: bytes, fields: Sequence[str], entry_bytes: int) -> list[array[int]]:
    """The inverse of `_interleave`."""
    columns: list[array[int]] = []
    at = 0
    for code in fields:
        column: array[int] = array(code)
        width = column.itemsize
        column_bytes = bytearray(width * (len(data) // entry_bytes))
        for byte in range(width):
            target = width - 1 - byte if sys.byteorder == "little" else byte
            column_bytes[target::width] = data[at + byte :: entry_bytes]
        column.frombytes(column_bytes)
        columns.append(column)
        at += width
    return columns

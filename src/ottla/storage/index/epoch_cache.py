"""The leader epochs of a log and where each began (`leader-epoch-checkpoint`).

Version 0 and the number of entries on the first two lines, then `epoch start-offset` a line. Epochs and start
offsets strictly increase.

A change is made in memory; `flush` writes it. The rule that keeps a crash harmless: the file has every entry that
starts below the recovery point, because the log is not scanned again there; above it, every batch carries its
epoch. An entry that starts at the end of the log, as after each election, is therefore not written before records
follow it. Entries that a crash brings back are removed by `truncate_from_end` and `truncate_from_start` when the log
is loaded.

Concurrency: the log's task only.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from ottla.base.errors import invariant
from ottla.base.files import Disk
from ottla.storage.checkpoints import CorruptCheckpoint, format_entries, parse_entries, parse_number

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1
OFFSET_MAX: Final = 2**63 - 1
_EVERYTHING: Final = -1  # below all offsets: the file must be written in any case


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochWrite:
    """A write of the file with the entries of one moment; `run` may be called in a worker thread."""

    __slots__ = ("_content", "_disk", "_epochs", "_path")

    def __init__(self, epochs: EpochCache, disk: Disk, path: str, content: bytes) -> None:
        self._epochs = epochs
        self._disk = disk
        self._path = path
        self._content = content

    def run(self) -> None:
        """Replace the file, durably."""
        self._disk.replace(self._path, self._content)

    def prepare(self) -> None:
        """Write the content under another name, without a sync."""
        file = self._disk.open(f"{self._path}.tmp", create=True)
        try:
            file.truncate(0)
            file.pwritev([self._content], 0)
        finally:
            file.close()

    def exchange(self) -> None:
        """Give the prepared content, durable by now, the name of the file; durable once the directory is synced."""
        self._disk.rename(f"{self._path}.tmp", self._path)

    def finish(self) -> None:
        """Record the success, on the event loop."""
        self._epochs.wrote(self._content)


class EpochCache:
    def __init__(self, disk: Disk, path: str) -> None:
        """Read the file at `path`; raises CorruptCheckpoint if it does not parse."""
        self.path = path
        self._disk = disk
        self._epochs: array[int] = array("i")
        self._starts: array[int] = array("q")
        self._unwritten_from: int | None = None  # lowest start offset of the entries that the file lacks
        try:
            data = disk.read(path)
        except FileNotFoundError:
            return
        self._load(data)

    @property
    def latest_epoch(self) -> int | None:
        """The epoch of the last batch, or None for a log without epochs."""
        return self._epochs[-1] if self._epochs else None

    @property
    def earliest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def entries(self) -> list[EpochEntry]:
        return list(map(EpochEntry, self._epochs, self._starts))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; True if that was news.

        Entries that contradict the new one (a higher epoch, or a start at or after it) are dropped: they
        belong to records that were truncated away.
        """
        invariant(epoch >= 0 and start_offset >= 0, f"epoch {epoch} at {start_offset} in {self.path}")
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return False
        kept = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._keep(kept)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        if self._unwritten_from is None:
            self._unwritten_from = start_offset
        return True

    def adopt(self, other: EpochCache) -> None:
        """Take over the entries of a log with the same records; all of them are written with the next flush."""
        self._epochs, self._starts = other._epochs[:], other._starts[:]
        self._unwritten_from = _EVERYTHING if self._epochs else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest known epoch at or below the requested one.

        (-1, -1) for the undefined epoch and for one above all known; an epoch below all known ends where the
        first known one starts.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        found = self._epochs[higher - 1] if higher else epoch
        return found, self._starts[higher]

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that the record at `offset` was written in."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else None

    def previous_epoch(self, epoch: int) -> int | None:
        """The greatest known epoch below `epoch`."""
        slot = bisect_left(self._epochs, epoch) - 1
        return self._epochs[slot] if slot >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at or after `end_offset`, the new end of the log."""
        if end_offset >= 0:
            self._keep(bisect_left(self._starts, end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended before `start_offset`; the epoch that contains it then starts there."""
        gone = bisect_right(self._starts, start_offset) - 1
        if gone < 0 or (gone == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:gone]
        del self._starts[:gone]
        self._starts[0] = start_offset
        self._unwritten_from = _EVERYTHING

    def clear(self) -> None:
        self._keep(0)

    def flush(self, below: int = OFFSET_MAX) -> None:
        """Write the file, durably, if it lacks an entry that starts below `below` or has one that was dropped."""
        write = self.take_write(below)
        if write is not None:
            write.run()
            write.finish()

    def take_write(self, below: int) -> EpochWrite | None:
        """The write that `flush` would do, to be run elsewhere; None if there is nothing to write."""
        if self._unwritten_from is None or self._unwritten_from >= below:
            return None
        lines = (f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True))
        return EpochWrite(self, self._disk, self.path, format_entries(lines))

    def wrote(self, entries: bytes) -> None:
        """The file now has these entries."""
        lines = (f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True))
        if entries == format_entries(lines):
            self._unwritten_from = None

    def _keep(self, count: int) -> None:
        if count < len(self._epochs):
            written = self._unwritten_from is None or self._starts[count] < self._unwritten_from
            del self._epochs[count:]
            del self._starts[count:]
            if written:
                self._unwritten_from = _EVERYTHING

    def _load(self, data: bytes) -> None:
        for number, (epoch_text, start_text) in enumerate(parse_entries(data, self.path, 2), 3):
            epoch = parse_number(epoch_text, self.path, number, 2**31 - 1)
            start = parse_number(start_text, self.path, number)
            if epoch < 0 or start < 0:
                raise CorruptCheckpoint(f"{self.path}, line {number}: negative epoch or offset")
            self.assign(epoch, start)
        self._unwritten_from = None

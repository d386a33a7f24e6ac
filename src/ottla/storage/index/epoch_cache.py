"""The leader epochs of a log and where each began (`leader-epoch-checkpoint`).

Version 0 and the number of entries on the first two lines, then `epoch start-offset` a line. Epochs and start
offsets strictly increase.

A change is made in memory; `flush` writes it. The rule that keeps a crash harmless: flush before the recovery
point passes the start of a new epoch, because below the recovery point the log is not scanned again, and
above it every batch tells its epoch. Entries that a crash brings back are cut by `truncate_from_end` and
`truncate_from_start` when the log is loaded.

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


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochCache:
    def __init__(self, disk: Disk, path: str) -> None:
        """Read the file at `path`; raises CorruptCheckpoint if it does not parse."""
        self.path = path
        self._disk = disk
        self._epochs: array[int] = array("i")
        self._starts: array[int] = array("q")
        self._dirty = False
        if disk.exists(path):
            self._load(disk.read(path))

    @property
    def latest_epoch(self) -> int | None:
        """The epoch of the last batch, or None for a log without epochs."""
        return self._epochs[-1] if self._epochs else None

    @property
    def earliest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    @property
    def dirty(self) -> bool:
        """Whether the file is behind the memory."""
        return self._dirty

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
        self._dirty = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest known epoch at or below the asked one.

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
        """Drop the epochs that ended before `start_offset`; the one it lies in starts there now."""
        gone = bisect_right(self._starts, start_offset) - 1
        if gone < 0 or (gone == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:gone]
        del self._starts[:gone]
        self._starts[0] = start_offset
        self._dirty = True

    def clear(self) -> None:
        self._keep(0)

    def flush(self) -> None:
        """Write the file if it is behind."""
        if self._dirty:
            lines = (f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True))
            self._disk.replace(self.path, format_entries(lines))
            self._dirty = False

    def _keep(self, count: int) -> None:
        if count < len(self._epochs):
            del self._epochs[count:]
            del self._starts[count:]
            self._dirty = True

    def _load(self, data: bytes) -> None:
        for number, (epoch_text, start_text) in enumerate(parse_entries(data, self.path, 2), 3):
            epoch = parse_number(epoch_text, self.path, number, 2**31 - 1)
            start = parse_number(start_text, self.path, number)
            if epoch < 0 or start < 0:
                raise CorruptCheckpoint(f"{self.path}, line {number}: negative epoch or offset")
            self.assign(epoch, start)
        self._dirty = False

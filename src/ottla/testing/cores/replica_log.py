"""A replica's log in memory, with a disk that finishes writes later and loses unfinished ones in a crash.

It has the attributes of `storage.log.log.Log` that `replication.partition` and `replication.follower` use. Batches have
one value instead of bytes. One write is in progress at a time: followers may copy its batches from its start or only
from its end on (`copies_early`), and they are committable at its end. They are durable then, too, if the topic syncs
every record (`synced`), otherwise only after a later `flush`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.ids import TopicPartition
from ottla.storage.index.epoch_cache import EpochCache
from ottla.storage.log.log_config import LogConfig

PARTITION = TopicPartition("t", 0)
FETCH_BATCHES_MAX = 5


class Batch(NamedTuple):
    """One record, in the epoch of the leader that appended it."""

    offset: int
    epoch: int
    value: int


class Slice(NamedTuple):
    """Batches that were read."""

    batches: tuple[Batch, ...]
    end_offset: int = -1

    @property
    def size(self) -> int:
        return len(self.batches)


class _NoDisk:
    def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)


class Image(NamedTuple):
    """What a disk has after a crash."""

    batches: tuple[Batch, ...] = ()
    high_watermark: int = 0


class ReplicaLog:
    """One replica's log."""

    topic_partition = PARTITION
    offline = False
    log_start_offset = 0
    followed = False
    truncating = False

    def __init__(self, image: Image, config: LogConfig, *, copies_early: bool, synced: bool) -> None:
        self.config = config
        self.batches = list(image.batches)
        self.epochs = EpochCache(cast(Any, _NoDisk()), "epochs")
        self.high_watermark = min(image.high_watermark, len(self.batches))
        self.readable_offset = self.committable_offset = self.flushed_offset = self.log_end_offset
        self._copies_early = copies_early
        self._synced = synced
        self._writing: int | None = None
        for batch in self.batches:
            self.epochs.assign(batch.epoch, batch.offset)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    @property
    def latest_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True) -> Slice:
        if not 0 <= offset <= self.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        end = min(upto, self.readable_offset, offset + FETCH_BATCHES_MAX)
        return Slice(tuple(self.batches[offset:end]))

    def read_staged(self, max_bytes: int) -> Slice | None:
        if self._writing is None or not self._copies_early:
            return None
        return Slice(tuple(self.batches[self.readable_offset : self._writing]), self._writing)

    # Changes

    def append(self, batches: Sequence[Batch]) -> None:
        """Stage batches at the end of the log."""
        for batch in batches:
            invariant(batch.offset == self.log_end_offset, f"{batch} at {self.log_end_offset}")
            self.epochs.assign(batch.epoch, batch.offset)
            self.batches.append(batch)

    def truncate(self, offset: int) -> None:
        """Remove the batches at and above `offset`, durably; no write may be in progress."""
        invariant(self._writing is None, "truncation during a write")
        del self.batches[offset:]
        self.epochs.truncate_from_end(offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.readable_offset = self.committable_offset = self.flushed_offset = self.log_end_offset

    @property
    def can_write(self) -> bool:
        """Whether there is something to write and no write in progress."""
        return self._writing is None and self.committable_offset < self.log_end_offset

    def begin_write(self) -> None:
        self._writing = self.log_end_offset

    def finish_write(self) -> None:
        """The write in progress is complete."""
        end, self._writing = self._writing, None
        if end is not None:
            self.readable_offset = self.committable_offset = end
            if self._synced:
                self.flushed_offset = end

    def flush(self) -> None:
        """Sync what was written."""
        self.flushed_offset = self.committable_offset

    def crash(self, kept: int, high_watermark: int) -> Image:
        """The disk after a crash in which `kept` of the batches that are not durable were written."""
        return Image(tuple(self.batches[: self.flushed_offset + kept]), high_watermark)

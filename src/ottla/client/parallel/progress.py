"""The figures of a parallel consumer at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition since it was assigned."""

    partition: TopicPartition
    running: int
    """Records that a handler has, or whose dead letter is on its way."""
    waiting: int
    """Records read but not yet given to a handler, the retrying ones not counted."""
    retrying: int
    """Records that failed and wait for their next attempt."""
    done: int
    """Records that need no more work: handled, or dead-lettered."""
    retried: int
    dead_lettered: int
    next_offset: int | None
    """Above every offset read so far; None until anything was read."""
    committable_offset: int | None
    """The lowest unfinished offset."""
    committed_offset: int | None
    """What the cluster last acknowledged."""
    paused: bool

    @property
    def in_flight(self) -> int:
        """Records held in memory."""
        return self.running + self.waiting + self.retrying

    @property
    def commit_lag(self) -> int:
        """How many offsets a restart would read again, most of them only to pass over them."""
        if self.next_offset is None or self.committed_offset is None:
            return self.in_flight + self.done
        return self.next_offset - self.committed_offset


@dataclass(frozen=True, slots=True)
class Progress:
    """The whole consumer; the counts of what is over include partitions that have gone to others since."""

    partitions: tuple[PartitionProgress, ...]
    done: int
    retried: int
    dead_lettered: int
    passed_over: int
    """Records read again that an earlier life had finished; no handler saw them."""
    ignored: int
    """Results that came after their partition had gone: another member has, or will have, the record again."""

    @property
    def running(self) -> int:
        return sum(partition.running for partition in self.partitions)

    @property
    def waiting(self) -> int:
        return sum(partition.waiting for partition in self.partitions)

    @property
    def retrying(self) -> int:
        return sum(partition.retrying for partition in self.partitions)

    @property
    def in_flight(self) -> int:
        return sum(partition.in_flight for partition in self.partitions)

    @property
    def commit_lag(self) -> int:
        return sum(partition.commit_lag for partition in self.partitions)

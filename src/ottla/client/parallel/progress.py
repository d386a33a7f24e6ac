"""Progress of a parallel consumer: counters and offsets at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Progress of one partition since it was assigned."""

    partition: TopicPartition
    running: int
    """Records that a handler runs, or whose dead letter is in flight."""
    waiting: int
    """Records that were read but not given to a handler yet, without those in `retrying`."""
    retrying: int
    """Records that failed and wait for their next attempt."""
    done: int
    """Records that are complete: handled, or produced as dead letters."""
    retried: int
    dead_lettered: int
    next_offset: int | None
    """Above every offset read so far; None before the first record."""
    committable_offset: int | None
    """The lowest unfinished offset."""
    committed_offset: int | None
    """The last offset that the cluster acknowledged."""
    paused: bool

    @property
    def in_flight(self) -> int:
        """Records in memory."""
        return self.running + self.waiting + self.retrying

    @property
    def commit_lag(self) -> int:
        """The number of offsets that are read again after a restart; finished ones are skipped."""
        if self.next_offset is None or self.committed_offset is None:
            return self.in_flight + self.done
        return self.next_offset - self.committed_offset


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of the whole consumer. Counters include partitions that were released since."""

    partitions: tuple[PartitionProgress, ...]
    done: int
    retried: int
    dead_lettered: int
    passed_over: int
    """Records that were finished before a restart, and therefore skipped."""
    ignored: int
    """Results that arrived after their partition was released; another owner handles these records again."""

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

"""Scheduler of a parallel consumer: which record runs next, which offset can be committed, when reading pauses.

A record is added with `add`, given to a handler with `take`, and completed with `finish` or `fail`. Records with
the same ordering key (a record key, or the partition) run one after another: the next one is ready when the
previous one is finished. A record that waits for its next attempt blocks only the records with its ordering key.

Reading is limited in two steps. Up to half of `records_max` records are read without limit. Above that, the reader
waits for a short time. If that is not enough, partitions with more than their share are paused, and the others may
fill the second half, so that a slow partition does not block the rest. At `records_max` all partitions are paused.
A partition is also paused if its finished offsets do not fit into the metadata of a commit.

A partition is removed in two steps: after `close` its records are not given out any more; after `drop` the results
of records that still run are ignored. If the partition is assigned again meanwhile, the ordering keys of such
records stay blocked until they end: within one process, two handlers never run records with the same ordering key.

Pure: the time is an argument, in seconds. Not thread-safe (`dispatcher` holds the lock).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from enum import Enum, auto
from itertools import count
from typing import NamedTuple

from confluent_kafka import Message

from ottla.base.ids import TopicPartition
from ottla.client.parallel import offset_metadata
from ottla.client.parallel.assignment import Assignment, Work
from ottla.client.parallel.offset_tracker import OffsetTracker
from ottla.client.parallel.options import Options, Order
from ottla.client.parallel.progress import Progress

_ORDERING_KEYS: dict[Order, Callable[[bytes | None], Hashable]] = {
    Order.KEY: lambda key: key,
    Order.PARTITION: lambda _key: True,
    Order.NONE: lambda _key: None,
}


class FailureAction(Enum):
    """What to do with a record whose handler failed."""

    RETRY = auto()
    DEAD_LETTER = auto()
    """The record counts as running until its dead letter is acknowledged; then call `finish`."""
    GIVE_UP = auto()
    IGNORED = auto()
    """The assignment of the record has ended or is ending."""


class Commit(NamedTuple):
    partition: TopicPartition
    offset: int
    metadata: str


class Scheduler:
    def __init__(self, options: Options) -> None:
        self._retry = options.retry
        self._ordering_key_of = _ORDERING_KEYS[options.order]
        self._has_dead_letters = options.dead_letter_topic is not None
        self._records_max = options.records_max
        self._records_free = options.records_max // 2
        self._metadata_bytes_max = options.metadata_bytes_max
        self._assignments: dict[tuple[str, int], Assignment] = {}
        self._ready: deque[Work] = deque()
        self._retries: list[tuple[float, int, Work]] = []
        self._sequence = count()
        self._stale: set[tuple[TopicPartition, Hashable]] = set()
        self._in_flight = 0
        self._totals: Counter[str] = Counter()

    # Assignments

    def assign(self, partition: TopicPartition, committed_offset: int | None, metadata: str | None) -> None:
        """Start a partition at the committed offset; None if the group has not committed one."""
        if committed_offset is None:
            assignment = Assignment(partition, OffsetTracker())
        else:
            finished = offset_metadata.decode(committed_offset, metadata)
            assignment = Assignment(partition, OffsetTracker(committed_offset, finished))
            assignment.committed = (committed_offset, metadata or "")
        self.drop([partition])
        for entry, ordering_key in self._stale:
            if entry == partition:
                assignment.queues[ordering_key] = None
        self._assignments[partition] = assignment

    def partitions(self) -> list[TopicPartition]:
        return [assignment.partition for assignment in self._assignments.values()]

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out no more records of these partitions. Running ones may finish."""
        for assignment in self._known(partitions):
            assignment.open = False

    def running(self, partitions: Iterable[TopicPartition]) -> int:
        return sum(len(assignment.running) for assignment in self._known(partitions))

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions; later results of their records are ignored."""
        for assignment in self._known(partitions):
            del self._assignments[assignment.partition]
            assignment.open = assignment.current = False
            self._in_flight -= len(assignment.tracker)
            self._stale.update(
                (assignment.partition, work.ordering_key)
                for work in assignment.running
                if work.ordering_key is not None
            )

    # Records

    def add(self, partition: tuple[str, int], offset: int, key: bytes | None, message: Message) -> None:
        """Add a record that was read. A lower offset than before restarts the partition there."""
        assignment = self._assignments.get(partition)
        if assignment is None:
            return
        if assignment.tracker.is_rewind(offset):
            self.seek(assignment.partition, offset)
            assignment = self._assignments[partition]
        if not assignment.tracker.take(offset):
            self._totals["passed_over"] += 1
            assignment.dirty = True
            return
        self._in_flight += 1
        ordering_key = self._ordering_key_of(key)
        work = Work(assignment, offset, ordering_key, message)
        if ordering_key is None:
            self._ready.append(work)
        elif ordering_key not in assignment.queues:
            assignment.queues[ordering_key] = None
            self._ready.append(work)
        elif (queue := assignment.queues[ordering_key]) is None:
            assignment.queues[ordering_key] = deque((work,))
        else:
            queue.append(work)

    def advance(self, partition: tuple[str, int], next_offset: int) -> None:
        """Record the end of a partition: offsets below it that were not delivered do not exist."""
        assignment = self._assignments.get(partition)
        if assignment is not None and assignment.tracker.advance(next_offset):
            assignment.dirty = True

    def take(self, now: float) -> Work | None:
        """The next record to handle."""
        self._queue_due_retries(now)
        while self._ready:
            work = self._ready.popleft()
            if work.assignment.open:
                work.assignment.running.add(work)
                return work
        return None

    def has_ready(self, now: float) -> bool:
        self._queue_due_retries(now)
        return bool(self._ready)

    def next_retry(self) -> float | None:
        """The time of the next retry."""
        return self._retries[0][0] if self._retries else None

    def finish(self, work: Work, *, dead_lettered: bool = False) -> None:
        """Complete a record."""
        assignment = work.assignment
        assignment.running.discard(work)
        if not assignment.current:
            self._finish_stale(work)
            return
        assignment.tracker.finish(work.offset)
        assignment.dirty = True
        self._in_flight -= 1
        assignment.done += 1
        self._totals["done"] += 1
        if dead_lettered:
            assignment.dead_lettered += 1
            self._totals["dead_lettered"] += 1
        if work.ordering_key is not None:
            self._release(assignment, work.ordering_key)

    def fail(self, work: Work, now: float, *, retriable: bool = True) -> FailureAction:
        """Record a failure of the handler; return what to do with the record."""
        assignment = work.assignment
        work.attempts += 1
        if not assignment.current:
            assignment.running.discard(work)
            self._finish_stale(work)
            return FailureAction.IGNORED
        if not retriable or self._retry.is_exhausted(work.attempts):
            if self._has_dead_letters:
                return FailureAction.DEAD_LETTER
            assignment.running.discard(work)
            return FailureAction.GIVE_UP
        assignment.running.discard(work)
        if not assignment.open:
            return FailureAction.IGNORED
        assignment.retrying += 1
        assignment.retried += 1
        self._totals["retried"] += 1
        due = now + self._retry.delay_s(work.attempts)
        heapq.heappush(self._retries, (due, next(self._sequence), work))
        return FailureAction.RETRY

    # Commits

    def commits(self, partitions: Iterable[TopicPartition] | None = None) -> list[Commit]:
        """Changed offsets to commit. The caller reports the result with `committed` or `commit_failed`."""
        found: list[Commit] = []
        for assignment in self._known(self.partitions() if partitions is None else partitions):
            offset = assignment.tracker.committable_offset
            if not assignment.dirty or offset is None:
                continue
            assignment.dirty = False
            metadata, _ = assignment.tracker.encode(self._metadata_bytes_max)
            if assignment.committed != (offset, metadata):
                found.append(Commit(assignment.partition, offset, metadata))
        return found

    def committed(self, commit: Commit) -> None:
        for assignment in self._known([commit.partition]):
            assignment.committed = (commit.offset, commit.metadata)

    def commit_failed(self, partition: TopicPartition) -> None:
        """Include the partition in the next commit."""
        for assignment in self._known([partition]):
            assignment.dirty = True

    def shrink_metadata(self) -> bool:
        """Halve the limit of the metadata, because the cluster rejected it; False if it was 0."""
        had_some = self._metadata_bytes_max > 0
        self._metadata_bytes_max //= 2
        return had_some

    def abandon(self, work: Work) -> None:
        """Remove a running record without completing it; the consumer is ending."""
        work.assignment.running.discard(work)

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Continue at another offset; False if the partition is not assigned. Running records are ignored."""
        if partition not in self._assignments:
            return False
        before = self._assignments[partition]
        self.assign(partition, offset, None)
        after = self._assignments[partition]
        # Clear the committed offset, so that the next commit is sent even if it is equal.
        after.paused, after.committed, after.dirty = before.paused, None, True
        return True

    # Limits

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def has_room(self) -> bool:
        """Whether at most three quarters of the first half are used."""
        return self._in_flight <= self._records_free * 3 // 4

    def room(self) -> int:
        """How many records may be read now."""
        bound = self._records_max if self.has_paused() else self._records_free
        return max(0, bound - self._in_flight)

    def has_paused(self) -> bool:
        return any(assignment.paused for assignment in self._assignments.values())

    def decide_pauses(self, *, waited: bool) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Partitions to pause and to resume. `waited`: the reader waited for room without success."""
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        share = max(1, self._records_free // max(1, len(self._assignments)))
        full = self._in_flight >= self._records_max
        over = waited and self._in_flight >= self._records_free
        relaxed = self._in_flight <= self._records_free // 2
        for assignment in self._assignments.values():
            records = len(assignment.tracker)
            too_much_metadata = assignment.tracker.exceeds_metadata(self._metadata_bytes_max)
            if not assignment.paused and (too_much_metadata or full or (over and records >= share)):
                assignment.paused = True
                pause.append(assignment.partition)
            elif (
                assignment.paused
                and not too_much_metadata
                and not full
                and (relaxed or records <= share // 2)
            ):
                assignment.paused = False
                resume.append(assignment.partition)
        return pause, resume

    def progress(self) -> Progress:
        return Progress(
            partitions=tuple(assignment.progress() for assignment in self._assignments.values()),
            done=self._totals["done"],
            retried=self._totals["retried"],
            dead_lettered=self._totals["dead_lettered"],
            passed_over=self._totals["passed_over"],
            ignored=self._totals["ignored"],
        )

    def _known(self, partitions: Iterable[TopicPartition]) -> list[Assignment]:
        return [self._assignments[partition] for partition in partitions if partition in self._assignments]

    def _queue_due_retries(self, now: float) -> None:
        """Queue records whose retry is due before all others, because they block the committed offset."""
        while self._retries and self._retries[0][0] <= now:
            work = heapq.heappop(self._retries)[2]
            work.assignment.retrying -= 1
            self._ready.appendleft(work)

    def _release(self, assignment: Assignment, ordering_key: Hashable) -> None:
        queue = assignment.queues[ordering_key]
        if queue:
            self._ready.append(queue.popleft())
        else:
            del assignment.queues[ordering_key]

    def _finish_stale(self, work: Work) -> None:
        """Complete a record of an ended assignment: unblock its ordering key for a later assignment."""
        self._totals["ignored"] += 1
        if work.ordering_key is None:
            return
        entry = (work.assignment.partition, work.ordering_key)
        self._stale.remove(entry)  # at most one per ordering key, because later assignments block it
        later = self._assignments.get(work.assignment.partition)
        if later is not None:
            self._release(later, work.ordering_key)

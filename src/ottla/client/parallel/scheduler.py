"""Which record is handled next, which offset may be committed, when reading pauses: all decisions, no waiting.

Records come in with `add`, leave with `take`, and come back with `finish` or `fail`. A record of an ordered lane
(a key, or a partition) is given out only when the one before it in the lane is finished; a record that waits for
its next attempt holds its lane and nothing else.

Reading is bounded in two steps. Up to half of `records_max` records are read freely. Above it the reader waits a
moment; when that does not help, partitions that hold more than their share pause and the others may fill the
second half, so that a slow partition does not starve the rest. At `records_max` all pause. A partition whose
finished offsets are too scattered to fit a commit's metadata pauses as well.

A partition leaves in two steps too: `close` stops giving out its work, `drop` makes the results of what still
runs count for nothing. When the partition comes back meanwhile, the lanes of such outliving work are held until it
ends: within one process, two handlers never have records of one lane at the same time.

Pure: the time is an argument, in seconds. One caller at a time (`exchange` holds the lock).
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
from ottla.client.parallel.assigned import Assigned, Work
from ottla.client.parallel.offset_tracker import OffsetTracker
from ottla.client.parallel.options import Options, Order
from ottla.client.parallel.progress import Progress

_LANES: dict[Order, Callable[[bytes | None], Hashable]] = {
    Order.KEY: lambda key: key,
    Order.PARTITION: lambda _key: True,
    Order.NONE: lambda _key: None,
}


class Verdict(Enum):
    """What becomes of a record whose handler failed."""

    RETRY = auto()
    DEAD_LETTER = auto()
    """It still counts as running: `finish` follows when the dead letter is acknowledged."""
    GIVE_UP = auto()
    IGNORED = auto()
    """Its assignment is over, or ending."""


class Commit(NamedTuple):
    partition: TopicPartition
    offset: int
    metadata: str


class Scheduler:
    def __init__(self, options: Options) -> None:
        self._retry = options.retry
        self._lane_of = _LANES[options.order]
        self._has_dead_letters = options.dead_letter_topic is not None
        self._records_max = options.records_max
        self._records_free = options.records_max // 2
        self._metadata_bytes_max = options.metadata_bytes_max
        self._assigned: dict[tuple[str, int], Assigned] = {}
        self._ready: deque[Work] = deque()
        self._retries: list[tuple[float, int, Work]] = []
        self._sequence = count()
        self._outliving: set[tuple[TopicPartition, Hashable]] = set()
        self._in_flight = 0
        self._totals: Counter[str] = Counter()

    # Partitions come and go.

    def assign(self, partition: TopicPartition, committed_offset: int | None, metadata: str | None) -> None:
        """Begin with a partition where the group left it; None when it never committed there."""
        if committed_offset is None:
            assigned = Assigned(partition, OffsetTracker())
        else:
            finished = offset_metadata.decode(committed_offset, metadata)
            assigned = Assigned(partition, OffsetTracker(committed_offset, finished))
            assigned.committed = (committed_offset, metadata or "")
        self.drop([partition])
        for place, lane in self._outliving:
            if place == partition:
                assigned.lanes[lane] = None
        self._assigned[partition] = assigned

    def partitions(self) -> list[TopicPartition]:
        return [assigned.partition for assigned in self._assigned.values()]

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out no more of their work; what runs may still finish."""
        for assigned in self._known(partitions):
            assigned.open = False

    def running(self, partitions: Iterable[TopicPartition]) -> int:
        return sum(len(assigned.running) for assigned in self._known(partitions))

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget them; results that still come are ignored."""
        for assigned in self._known(partitions):
            del self._assigned[assigned.partition]
            assigned.open = assigned.current = False
            self._in_flight -= len(assigned.tracker)
            self._outliving.update(
                (assigned.partition, work.lane) for work in assigned.running if work.lane is not None
            )

    # Records come in and go out.

    def add(self, partition: tuple[str, int], offset: int, key: bytes | None, message: Message) -> None:
        """A record was read. It may be the beginning of a second reading, after a seek or a reset."""
        assigned = self._assigned.get(partition)
        if assigned is None:
            return
        if assigned.tracker.goes_back(offset):
            self.seek(assigned.partition, offset)
            assigned = self._assigned[partition]
        if not assigned.tracker.take(offset):
            self._totals["passed_over"] += 1
            assigned.dirty = True
            return
        self._in_flight += 1
        lane = self._lane_of(key)
        work = Work(assigned, offset, lane, message)
        if lane is None:
            self._ready.append(work)
        elif lane not in assigned.lanes:
            assigned.lanes[lane] = None
            self._ready.append(work)
        elif (queue := assigned.lanes[lane]) is None:
            assigned.lanes[lane] = deque((work,))
        else:
            queue.append(work)

    def advance(self, partition: tuple[str, int], next_offset: int) -> None:
        """The end of a partition was reached: offsets below it that did not come do not exist."""
        assigned = self._assigned.get(partition)
        if assigned is not None and assigned.tracker.advance(next_offset):
            assigned.dirty = True

    def take(self, now: float) -> Work | None:
        """The next record to handle."""
        self._call_retries(now)
        while self._ready:
            work = self._ready.popleft()
            if work.assigned.open:
                work.assigned.running.add(work)
                return work
        return None

    def has_ready(self, now: float) -> bool:
        self._call_retries(now)
        return bool(self._ready)

    def next_retry(self) -> float | None:
        """When a record is due again."""
        return self._retries[0][0] if self._retries else None

    def finish(self, work: Work, *, dead_lettered: bool = False) -> None:
        """A record needs no more work."""
        assigned = work.assigned
        assigned.running.discard(work)
        if not assigned.current:
            self._outlived(work)
            return
        assigned.tracker.finish(work.offset)
        assigned.dirty = True
        self._in_flight -= 1
        assigned.done += 1
        self._totals["done"] += 1
        if dead_lettered:
            assigned.dead_lettered += 1
            self._totals["dead_lettered"] += 1
        if work.lane is not None:
            self._release(assigned, work.lane)

    def fail(self, work: Work, now: float, *, retriable: bool = True) -> Verdict:
        """The handler failed; what happens to the record."""
        assigned = work.assigned
        work.attempts += 1
        if not assigned.current:
            assigned.running.discard(work)
            self._outlived(work)
            return Verdict.IGNORED
        if not retriable or self._retry.is_exhausted(work.attempts):
            if self._has_dead_letters:
                return Verdict.DEAD_LETTER
            assigned.running.discard(work)
            return Verdict.GIVE_UP
        assigned.running.discard(work)
        if not assigned.open:
            return Verdict.IGNORED
        assigned.retrying += 1
        assigned.retried += 1
        self._totals["retried"] += 1
        due = now + self._retry.delay_s(work.attempts)
        heapq.heappush(self._retries, (due, next(self._sequence), work))
        return Verdict.RETRY

    # Commits.

    def commits(self, partitions: Iterable[TopicPartition] | None = None) -> list[Commit]:
        """What is new to commit. Tell how it went: `committed`, or `commit_failed`."""
        found: list[Commit] = []
        for assigned in self._known(self.partitions() if partitions is None else partitions):
            offset = assigned.tracker.committable_offset
            if not assigned.dirty or offset is None:
                continue
            assigned.dirty = False
            metadata, _ = assigned.tracker.encode(self._metadata_bytes_max)
            if assigned.committed != (offset, metadata):
                found.append(Commit(assigned.partition, offset, metadata))
        return found

    def committed(self, commit: Commit) -> None:
        for assigned in self._known([commit.partition]):
            assigned.committed = (commit.offset, commit.metadata)

    def commit_failed(self, partition: TopicPartition) -> None:
        """Try again with the next commit."""
        for assigned in self._known([partition]):
            assigned.dirty = True

    def shrink_metadata(self) -> bool:
        """The cluster takes less metadata than was thought; False when there was none left to save."""
        had_some = self._metadata_bytes_max > 0
        self._metadata_bytes_max //= 2
        return had_some

    def abandon(self, work: Work) -> None:
        """A handler ended in a way that ends the consumer: its record stays unfinished."""
        work.assigned.running.discard(work)

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Go on from another offset; False when the partition is not here. What still runs is ignored."""
        if partition not in self._assigned:
            return False
        before = self._assigned[partition]
        self.assign(partition, offset, None)
        after = self._assigned[partition]
        # What was committed is forgotten, so that the next commit is made whatever it says.
        after.paused, after.committed, after.dirty = before.paused, None, True
        return True

    # Bounds.

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def is_roomy(self) -> bool:
        """Whether reading on is worth while: a good part of the free half is free."""
        return self._in_flight <= self._records_free * 3 // 4

    def room(self) -> int:
        """How many records may be read now."""
        bound = self._records_max if self.has_paused() else self._records_free
        return max(0, bound - self._in_flight)

    def has_paused(self) -> bool:
        return any(assigned.paused for assigned in self._assigned.values())

    def decide_pauses(self, *, waited: bool) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Which partitions shall pause and which resume. `waited`: the reader waited for room in vain."""
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        share = max(1, self._records_free // max(1, len(self._assigned)))
        full = self._in_flight >= self._records_max
        over = waited and self._in_flight >= self._records_free
        relaxed = self._in_flight <= self._records_free // 2
        for assigned in self._assigned.values():
            held = len(assigned.tracker)
            crowded = assigned.tracker.is_crowded(self._metadata_bytes_max)
            if not assigned.paused and (crowded or full or (over and held >= share)):
                assigned.paused = True
                pause.append(assigned.partition)
            elif assigned.paused and not crowded and not full and (relaxed or held <= share // 2):
                assigned.paused = False
                resume.append(assigned.partition)
        return pause, resume

    def progress(self) -> Progress:
        return Progress(
            partitions=tuple(assigned.progress() for assigned in self._assigned.values()),
            done=self._totals["done"],
            retried=self._totals["retried"],
            dead_lettered=self._totals["dead_lettered"],
            passed_over=self._totals["passed_over"],
            ignored=self._totals["ignored"],
        )

    def _known(self, partitions: Iterable[TopicPartition]) -> list[Assigned]:
        return [self._assigned[partition] for partition in partitions if partition in self._assigned]

    def _call_retries(self, now: float) -> None:
        """Records whose time has come go first: they are what holds the commit back."""
        while self._retries and self._retries[0][0] <= now:
            work = heapq.heappop(self._retries)[2]
            work.assigned.retrying -= 1
            self._ready.appendleft(work)

    def _release(self, assigned: Assigned, lane: Hashable) -> None:
        queue = assigned.lanes[lane]
        if queue:
            self._ready.append(queue.popleft())
        else:
            del assigned.lanes[lane]

    def _outlived(self, work: Work) -> None:
        """Work ended whose assignment had ended before: its lane is free for a later assignment."""
        self._totals["ignored"] += 1
        if work.lane is None:
            return
        place = (work.assigned.partition, work.lane)
        self._outliving.remove(place)  # there is one of a lane at most, as later assignments hold it
        later = self._assigned.get(work.assigned.partition)
        if later is not None:
            self._release(later, work.lane)

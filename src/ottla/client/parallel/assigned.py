"""One assignment of a partition to this member, and the records taken under it.

Each assignment is an object of its own, also when the same partition comes back: work refers to the object it
was taken under, so a result that outlives its assignment is recognised by `current` being False.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from confluent_kafka import Message

from ottla.base.ids import TopicPartition
from ottla.client.parallel.offset_tracker import OffsetTracker
from ottla.client.parallel.progress import PartitionProgress


class Work:
    """One record on its way through the handler."""

    __slots__ = ("assigned", "attempts", "lane", "message", "offset")

    def __init__(self, assigned: Assigned, offset: int, lane: Hashable, message: Message) -> None:
        self.assigned = assigned
        self.offset = offset
        self.lane = lane
        """Work of one lane is done one after the other; None waits for nobody."""
        self.message = message
        self.attempts = 0
        """How often the handler failed."""

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.assigned.partition}"


class Assigned:
    __slots__ = (
        "committed",
        "current",
        "dead_lettered",
        "dirty",
        "done",
        "lanes",
        "open",
        "partition",
        "paused",
        "retried",
        "retrying",
        "running",
        "tracker",
    )

    def __init__(self, partition: TopicPartition, tracker: OffsetTracker) -> None:
        self.partition = partition
        self.tracker = tracker
        self.lanes: dict[Hashable, deque[Work] | None] = {}
        """A lane is here while one of its records is under way; what waits behind that one is in the queue."""
        self.running: set[Work] = set()
        self.open = True
        """Whether its work may be given out."""
        self.current = True
        """Whether results still count."""
        self.paused = False
        self.dirty = False
        """Whether there may be something new to commit."""
        self.committed: tuple[int, str] | None = None
        self.retrying = 0
        self.done = 0
        self.retried = 0
        self.dead_lettered = 0

    def progress(self) -> PartitionProgress:
        return PartitionProgress(
            partition=self.partition,
            running=len(self.running),
            waiting=len(self.tracker) - len(self.running) - self.retrying,
            retrying=self.retrying,
            done=self.done,
            retried=self.retried,
            dead_lettered=self.dead_lettered,
            next_offset=self.tracker.next_offset,
            committable_offset=self.tracker.committable_offset,
            committed_offset=self.committed[0] if self.committed else None,
            paused=self.paused,
        )

"""Assignment of one partition to this member, and its records.

Every assignment is a new object, also if the same partition is assigned again. A record refers to its assignment,
so the result of a record whose assignment has ended is detected by `current` being False.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from confluent_kafka import Message

from ottla.base.ids import TopicPartition
from ottla.client.parallel.offset_tracker import OffsetTracker
from ottla.client.parallel.progress import PartitionProgress


class Work:
    """A record that is waiting, running or retried."""

    __slots__ = ("assignment", "attempts", "message", "offset", "ordering_key")

    def __init__(self, assignment: Assignment, offset: int, ordering_key: Hashable, message: Message) -> None:
        self.assignment = assignment
        self.offset = offset
        self.ordering_key = ordering_key
        """Records with the same key run one after another; None waits for no other record."""
        self.message = message
        self.attempts = 0
        """The number of failed attempts."""

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.assignment.partition}"


class Assignment:
    __slots__ = (
        "committed",
        "current",
        "dead_lettered",
        "dirty",
        "done",
        "open",
        "partition",
        "paused",
        "queues",
        "retried",
        "retrying",
        "running",
        "tracker",
    )

    def __init__(self, partition: TopicPartition, tracker: OffsetTracker) -> None:
        self.partition = partition
        self.tracker = tracker
        self.queues: dict[Hashable, deque[Work] | None] = {}
        """Ordering keys with a record that is ready, running or retried, and the records that wait for it."""
        self.running: set[Work] = set()
        self.open = True
        """Whether its records may be given out."""
        self.current = True
        """Whether results of its records are used."""
        self.paused = False
        self.dirty = False
        """Whether the committable offset may have changed."""
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

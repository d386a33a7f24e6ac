"""The offsets of all groups of a shard, as the log tells them: committed ones, and those of open transactions.

Only replay changes the store. An offset written outside of a transaction counts at once. One written by a
transactional producer is kept aside until that producer's marker arrives in this partition: a commit makes it
count, an abort forgets it. Whichever of two offsets of a partition stands later in the log wins, not whichever is
settled later: compaction may have removed the earlier record, and loading again must come to the same result.

A tombstone forgets the committed offset and every pending one of its partition, so that the end of a transaction
does not bring back what was deleted meanwhile.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec

from ottla.coordinator.group.records import OffsetCommitKey, OffsetCommitValue
from ottla.coordinator.runtime.state_machine import NO_PRODUCER, Stamp

NO_EXPIRY = -1


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """What a group committed for one partition. `record_offset` is the place of the commit in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: uuid.UUID
    record_offset: int


Topics = dict[str, dict[int, CommittedOffset]]


class OffsetTable:
    """Offsets by group, topic and partition; holds no empty tables."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[str, Topics] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        topics = self.by_group.get(group_id)
        if topics is None:
            topics = self.by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self.by_group[group_id]

    def __iter__(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        for group_id, topics in self.by_group.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed


class OffsetStore:
    """Committed and pending offsets."""

    __slots__ = ("_pending", "committed")

    def __init__(self) -> None:
        self.committed = OffsetTable()
        self._pending: dict[int, OffsetTable] = {}

    # What is there

    def of_group(self, group_id: str) -> Topics:
        """The committed offsets of a group; not to be changed."""
        return self.committed.by_group.get(group_id, {})

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds an offset of this partition."""
        return any(table.get(group_id, topic, partition) for table in self._pending.values())

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction holds offsets of this group."""
        return any(group_id in table.by_group for table in self._pending.values())

    def tables(self) -> list[OffsetTable]:
        """Everything, the committed offsets first."""
        return [self.committed, *self._pending.values()]

    # Replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, stamp: Stamp) -> None:
        """Take in a commit or, without a value, a deletion."""
        if value is None:
            for table in self.tables():
                table.remove(key.group, key.topic, key.partition)
            return
        table = self.committed
        if stamp.producer_id != NO_PRODUCER:
            table = self._pending.setdefault(stamp.producer_id, OffsetTable())
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            stamp.offset,
        )
        table.put(key.group, key.topic, key.partition, committed)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The transaction of a producer ended: its offsets count from now on, or are forgotten."""
        ended = self._pending.pop(producer_id, None)
        if ended is None or not committed:
            return
        for group_id, topic, partition, offset in ended:
            known = self.committed.get(group_id, topic, partition)
            if known is None or known.record_offset < offset.record_offset:
                self.committed.put(group_id, topic, partition, offset)

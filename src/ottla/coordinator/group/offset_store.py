"""The offsets of all groups of a shard: committed offsets, and pending offsets of open transactions.

Only replay changes the store. An offset that is not part of a transaction is committed at once. An offset of a
transactional producer is pending until the producer's marker arrives in this partition: a commit marker makes it a
committed offset, an abort marker removes it. Of two offsets of a partition, the one with the higher position in the
log wins, not the one whose transaction ended last: compaction may have removed the earlier record, and a reload must
give the same result.

A tombstone removes the committed offset and every pending offset of its partition, so that the end of a transaction
does not restore a deleted offset.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec

from ottla.coordinator.group.records import OffsetCommitKey, OffsetCommitValue
from ottla.coordinator.runtime.state_machine import NO_PRODUCER, Stamp

NO_EXPIRY = -1


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """The committed offset of one partition. `record_offset` is the offset of the commit record in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: uuid.UUID
    record_offset: int


Topics = dict[str, dict[int, CommittedOffset]]


class OffsetTable:
    """Offsets by group, topic and partition; contains no empty tables."""

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

    # Reading

    def of_group(self, group_id: str) -> Topics:
        """The committed offsets of a group; callers must not modify them."""
        return self.committed.by_group.get(group_id, {})

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return any(table.get(group_id, topic, partition) for table in self._pending.values())

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has offsets of this group."""
        return any(group_id in table.by_group for table in self._pending.values())

    def tables(self) -> list[OffsetTable]:
        """All tables, the committed offsets first."""
        return [self.committed, *self._pending.values()]

    # Replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, stamp: Stamp) -> None:
        """Apply a commit or, without a value, a deletion."""
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
        """Commit or remove the pending offsets of a producer whose transaction has ended."""
        ended = self._pending.pop(producer_id, None)
        if ended is None or not committed:
            return
        for group_id, topic, partition, offset in ended:
            known = self.committed.get(group_id, topic, partition)
            if known is None or known.record_offset < offset.record_offset:
                self.committed.put(group_id, topic, partition, offset)

"""Offset requests: OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, and the expiration of offsets.

Each request names topics that exist (`name` and `topic_id` are both set). A decision reads the groups and the store
and returns records and a response. Only replay changes the store.

Records: OffsetCommitKey with OffsetCommitValue in version 4, which has the topic id; in version 1, which has an
expiration time, when an old client sets a retention time.

An offset stores the id of its topic and is not used for a new topic with the same name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.group import Group, PartitionCheck
from ottla.coordinator.group.offset_store import NO_EXPIRY, CommittedOffset, OffsetStore
from ottla.coordinator.group.records import OffsetCommitKey, OffsetCommitValue
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.coordinator.runtime.state_machine import Stamp
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_VALUE_VERSION = 4
_VALUE_VERSION_WITH_EXPIRY = 1
_BROKERS_RETENTION = -1
_FOREVER_MS = (1 << 63) - 1
_NOTHING_COMMITTED = -1


class OffsetManager:
    """The offsets of a shard's groups."""

    def __init__(self, context: GroupContext, ensure_group: Callable[[str], None]) -> None:
        self._context = context
        self._ensure_group = ensure_group
        self.store = OffsetStore()

    # Replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, stamp: Stamp) -> None:
        """Apply a commit or a deletion; a commit to an unknown group creates a group without members."""
        if value is not None:
            self._ensure_group(key.group)
        self.store.replay(key, value, stamp)

    # OffsetCommit and TxnOffsetCommit

    def commit(self, request: OffsetCommitRequest, api_version: int) -> Decision[OffsetCommitResponse]:
        check = self._committer(request, api_version)
        now_ms = self._context.clock.now_ms()
        expire_ms, version = NO_EXPIRY, _VALUE_VERSION
        if request.retention_time_ms != _BROKERS_RETENTION:
            expire_ms = min(now_ms + request.retention_time_ms, _FOREVER_MS)
            version = _VALUE_VERSION_WITH_EXPIRY
        records: list[LogRecord] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                index = partition.partition_index
                metadata = partition.committed_metadata or ""
                if self._is_too_long(metadata):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=code))
                    continue
                if check is not None:
                    check(topic.topic_id, index)
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expire_ms,
                    topic_id=topic.topic_id,
                )
                key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                records.append(LogRecord(key, value, version))
                partitions.append(OffsetCommitResponsePartition(partition_index=index))
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return Decision(OffsetCommitResponse(topics=topics), records)

    def _committer(self, request: OffsetCommitRequest, api_version: int) -> PartitionCheck | None:
        """Raise ApiError if the sender may not commit. A sender without a generation may create the group."""
        group = self._context.groups.get(request.group_id)
        if group is not None:
            return group.validate_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                transactional=False,
                api_version=api_version,
            )
        if request.generation_id_or_member_epoch >= 0:
            code = ErrorCode.GROUP_ID_NOT_FOUND if api_version >= 9 else ErrorCode.ILLEGAL_GENERATION
            raise ApiError(code, f"Group {request.group_id} not found.")
        return None

    def commit_transactional(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Decision[TxnOffsetCommitResponse]:
        """Commit offsets in a transaction; they are pending until its marker is written."""
        check = self._transactional_committer(request, api_version)
        now_ms = self._context.clock.now_ms()
        records: list[LogRecord] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                code = ErrorCode.NONE
                if self._is_too_long(partition.committed_metadata or ""):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    if check is not None:
                        check(self._topic_id(topic.name), partition.partition_index)
                    records.append(_transactional_record(request.group_id, topic, partition, now_ms))
                partitions.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return Decision(TxnOffsetCommitResponse(topics=topics), records)

    def _transactional_committer(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> PartitionCheck | None:
        group = self._context.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"Group {request.group_id} not found.")
            return None
        with _without_epochs():
            check = group.validate_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                transactional=True,
                api_version=api_version,
            )
        return check if check is None else _without_epochs()(check)

    def _topic_id(self, name: str) -> uuid.UUID:
        topic = self._context.image.topics.by_name.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def _is_too_long(self, metadata: str) -> bool:
        """Compare with the limit in UTF-16 code units, as Kafka does; a character has one or two of them."""
        limit = self._context.settings.offset_metadata_max_bytes
        if 2 * len(metadata) <= limit:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * limit

    # OffsetFetch

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Return the offsets of the named partitions or, without topics, of all. An unknown group has none."""
        known = self.store.of_group(request.group_id) if self._may_fetch(request) else {}
        topics = []
        if request.topics is None:
            wanted = [(name, self._topic_id(name), list(partitions)) for name, partitions in known.items()]
        else:
            wanted = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
        for name, topic_id, indexes in wanted:
            partitions = known.get(name, {})
            responses = []
            for index in indexes:
                if require_stable and self.store.is_pending(request.group_id, name, index):
                    responses.append(_no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    responses.append(_offset(index, partitions.get(index), topic_id))
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=responses))
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _may_fetch(self, request: OffsetFetchRequestGroup) -> bool:
        """Whether the group has offsets to return: a dead group has none. Raises the error of a stale member."""
        group = self._context.groups.get(request.group_id)
        try:
            if group is not None:
                group.validate_offset_fetch(request.member_id, request.member_epoch)
        except ApiError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return False
        return True

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        """Delete single offsets of topics to which the group does not subscribe."""
        group = self._context.groups.get(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        group.validate_offset_delete()
        records: list[LogRecord] = []
        topics = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            indexes = [partition.partition_index for partition in topic.partitions]
            partitions = [
                OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes
            ]
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
            if not subscribed:
                records += [
                    _tombstone(request.group_id, topic.name, index)
                    for index in dict.fromkeys(indexes)
                    if self._exists(request.group_id, topic.name, index)
                ]
        return Decision(OffsetDeleteResponse(topics=topics), records)

    def _exists(self, group_id: str, topic: str, partition: int) -> bool:
        return any(table.get(group_id, topic, partition) for table in self.store.tables())

    def tombstones(self, group_id: str) -> list[LogRecord]:
        """Records that delete all offsets of a group, including those of open transactions."""
        found = {
            (topic, partition): None
            for table in self.store.tables()
            for topic, partitions in table.by_group.get(group_id, {}).items()
            for partition in partitions
        }
        return [_tombstone(group_id, topic, partition) for topic, partition in found]

    def tombstones_of_topics(self, ids: Mapping[str, uuid.UUID]) -> list[LogRecord]:
        """Records that delete the offsets of deleted topics, but not those of a new topic with the same name."""
        found = {
            (group_id, topic, partition): None
            for table in self.store.tables()
            for group_id, topic, partition, committed in table
            if topic in ids and committed.topic_id in (ZERO_UUID, ids[topic])
        }
        return [_tombstone(*each) for each in found]

    # Expiration

    def expired(self, group: Group) -> list[LogRecord]:
        """Records that delete the expired offsets of a group."""
        now_ms = self._context.clock.now_ms()
        retention_ms = self._context.settings.offsets_retention_ms
        records = []
        for topic, partitions in self.store.of_group(group.group_id).items():
            if group.is_subscribed_to(topic):
                continue
            for partition, committed in partitions.items():
                start_ms = group.retention_start(committed.commit_timestamp_ms)
                if start_ms is None:
                    return []
                if committed.expire_timestamp_ms == NO_EXPIRY:
                    due = now_ms - start_ms >= retention_ms
                else:
                    due = now_ms >= committed.expire_timestamp_ms
                if due and not self.store.is_pending(group.group_id, topic, partition):
                    records.append(_tombstone(group.group_id, topic, partition))
        return records

    def count(self, group_id: str) -> int:
        """How many committed offsets a group has."""
        return sum(map(len, self.store.of_group(group_id).values()))


@contextmanager
def _without_epochs() -> Iterator[None]:
    """Replace STALE_MEMBER_EPOCH by ILLEGAL_GENERATION, because producers do not handle member epochs."""
    try:
        yield
    except ApiError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
        raise


def _transactional_record(
    group_id: str,
    topic: TxnOffsetCommitRequestTopic,
    partition: TxnOffsetCommitRequestPartition,
    now_ms: int,
) -> LogRecord:
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
    )
    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=partition.partition_index)
    return LogRecord(key, value, _VALUE_VERSION)


def _tombstone(group_id: str, topic: str, partition: int) -> LogRecord:
    return LogRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def _offset(
    index: int, committed: CommittedOffset | None, topic_id: uuid.UUID
) -> OffsetFetchResponsePartitions:
    """A committed offset, unless it belongs to an earlier topic of the same name."""
    if committed is None or (
        committed.topic_id != topic_id and ZERO_UUID not in (committed.topic_id, topic_id)
    ):
        return _no_offset(index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _no_offset(index: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=_NOTHING_COMMITTED, metadata="", error_code=code
    )

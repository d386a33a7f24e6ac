"""ListOffsets (key 2), versions 1-11: the offset for a timestamp, or for one of the special timestamps.

    -1 latest   -2 earliest   -3 greatest timestamp (7)   -4 earliest local (8)   -5 latest tiered (9)
    -6 earliest not yet tiered (11)

A special timestamp that is unknown, or too new for the version, gives UNSUPPORTED_VERSION. "Latest" is the high
watermark, or the last stable offset for read_committed. There is no tiered storage: -4 is the same as -2, -5 and -6
find nothing. Topics are merged by name; a partition that occurs twice is invalid; a topic without partitions is
omitted. Partitions with an error are listed last. An unknown isolation level fails every partition with -1.

A new leader does not know the high watermark of the last one: until its own has reached the start of its leader epoch,
it returns OFFSET_NOT_AVAILABLE (before version 5 LEADER_NOT_AVAILABLE) instead of the latest offset or of no record.
Only the leader responds, except to the debugging replica id -2. For replica ids the log end takes the place of the
high watermark.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING: Final = -6
_SINCE: Final = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING: 11}
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGING: Final = -2
_FIRST_NOT_AVAILABLE: Final = 5


@handles(
    ApiKey.LIST_OFFSETS,
    ListOffsetsRequest,
    versions=(1, 11),
    requires=resources((Operation.DESCRIBE, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class ListOffsets:
    """Looks the offsets up in the logs of this broker."""

    authorization: Authorization
    replicas: Replicas

    def handle(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
        visible = name_filter(self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC)
        wanted, denied = request.topics, list[ListOffsetsTopic]()
        if visible is not None:
            wanted = [topic for topic in request.topics if visible(topic.name)]
            denied = [topic for topic in request.topics if not visible(topic.name)]
        if wanted and request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return ListOffsetsResponse(topics=[_refused(topic, code) for topic in request.topics])
        merged: dict[str, list[ListOffsetsPartition]] = {}
        for topic in wanted:
            if topic.partitions:
                merged.setdefault(topic.name, []).extend(topic.partitions)
        found = [self._topic(name, partitions, request, call) for name, partitions in merged.items()]
        refused = [_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]
        return ListOffsetsResponse(topics=found + refused)

    def _topic(
        self, name: str, partitions: list[ListOffsetsPartition], request: ListOffsetsRequest, call: Call
    ) -> ListOffsetsTopicResponse:
        times = Counter(partition.partition_index for partition in partitions)
        found: dict[int, ListOffsetsPartitionResponse] = {}
        failed: dict[int, ListOffsetsPartitionResponse] = {}
        for partition in partitions:
            index = partition.partition_index
            try:
                if times[index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                found[index] = self._partition(name, partition, request, call)
            except ApiError as error:
                failed[index] = ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
        return ListOffsetsTopicResponse(name=name, partitions=[*found.values(), *failed.values()])

    def _partition(
        self, topic: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, call: Call
    ) -> ListOffsetsPartitionResponse:
        timestamp = wanted.timestamp
        if timestamp < _EARLIEST and call.api_version < _SINCE.get(timestamp, call.api_version + 1):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        partition = self.replicas.get(topic, wanted.partition_index)
        if request.replica_id == _DEBUGGING:
            partition.check_replica_here(wanted.current_leader_epoch)
        else:
            partition.check_leader(wanted.current_leader_epoch)
        try:
            found_timestamp, offset, epoch = _find(
                partition,
                timestamp,
                _readable_end(partition, request),
                consumer=request.replica_id == _CONSUMER,
            )
        except ApiError as error:
            if error.code == ErrorCode.OFFSET_NOT_AVAILABLE and call.api_version < _FIRST_NOT_AVAILABLE:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE) from error
            raise
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            timestamp=found_timestamp,
            offset=offset,
            leader_epoch=epoch if call.api_version >= 4 else -1,
        )


def _refused(topic: ListOffsetsTopic, code: ErrorCode) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def _readable_end(partition: Partition, request: ListOffsetsRequest) -> int:
    log = partition.log
    if request.replica_id != _CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark


def _find(partition: Partition, timestamp: int, readable_end: int, *, consumer: bool) -> tuple[int, int, int]:
    """Return timestamp, offset and leader epoch; all are -1 if no record matches."""
    log = partition.log
    if timestamp == _LATEST:
        if consumer:
            partition.check_offsets_available()
        return -1, readable_end, partition.leader_epoch
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        epoch = log.epochs.epoch_for_offset(log.log_start_offset)
        return -1, log.log_start_offset, -1 if epoch is None else epoch
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING):
        return -1, -1, -1
    found = (
        partition.max_timestamp()
        if timestamp == _MAX_TIMESTAMP
        else partition.offset_for_timestamp(timestamp)
    )
    if found is None or found.offset >= readable_end:
        if consumer:
            partition.check_offsets_available()
        return -1, -1, -1
    return found.timestamp, found.offset, found.leader_epoch

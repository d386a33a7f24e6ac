"""DeleteRecords (key 21), versions 0-2: moves the log start offset; -1 means the high watermark.

Errors: an internal topic (17), a topic whose cleanup policy does not delete (44), an offset outside of the log (1).
Topics are merged by name; the last of several offsets of a partition is used; a topic without partitions is omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK: Final = -1


@handles(
    ApiKey.DELETE_RECORDS,
    DeleteRecordsRequest,
    versions=(0, 2),
    requires=resources((Operation.DELETE, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class DeleteRecords:
    """Moves the log start offsets of partitions of this broker."""

    authorization: Authorization
    replicas: Replicas

    def handle(self, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
        merged: dict[str, dict[int, int]] = {}
        for topic in request.topics:
            if topic.partitions:
                offsets = {one.partition_index: one.offset for one in topic.partitions}
                merged.setdefault(topic.name, {}).update(offsets)
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=name,
                    partitions=[self._delete(name, index, offset, call) for index, offset in wanted.items()],
                )
                for name, wanted in merged.items()
            ]
        )

    def _delete(self, topic: str, index: int, offset: int, call: Call) -> DeleteRecordsPartitionResult:
        try:
            check(self.authorization, call, Operation.DELETE, ResourceType.TOPIC, topic)
            partition = self.replicas.get(topic, index)
            if topic in INTERNAL_TOPICS:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            partition.check_leader()
            low_watermark = partition.delete_records(
                partition.high_watermark if offset == _HIGH_WATERMARK else offset
            )
        except ApiError as error:
            return DeleteRecordsPartitionResult(
                partition_index=index, low_watermark=-1, error_code=error.code
            )
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)

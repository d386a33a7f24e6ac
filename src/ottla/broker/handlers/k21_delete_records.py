"""DeleteRecords (key 21), versions 0-2: moves the log start offset; -1 means the high watermark.

The response is sent when all replicas on live brokers have deleted the records, so that they do not appear again with
another leader, or after the timeout of the request: then partitions that have not reached that get REQUEST_TIMED_OUT.

Errors: an internal topic (17), a topic whose cleanup policy does not delete (44), an offset outside of the log (1).
Topics are merged by name; the last of several offsets of a partition is used; a topic without partitions is omitted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.purgatory import Purgatory
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
_UNKNOWN: Final = -1


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
    purgatory: Purgatory
    replicas: Replicas

    def handle(self, request: DeleteRecordsRequest, call: Call) -> Promise[DeleteRecordsResponse]:
        merged: dict[str, dict[int, int]] = {}
        for topic in request.topics:
            if topic.partitions:
                offsets = {one.partition_index: one.offset for one in topic.partitions}
                merged.setdefault(topic.name, {}).update(offsets)
        pending = _PendingDeletion()
        for name, wanted in merged.items():
            for index, offset in wanted.items():
                pending.add(name, index, self._delete(name, index, offset, call))
        pending.wait(self.purgatory, request.timeout_ms / 1000)
        return pending.response

    def _delete(self, topic: str, index: int, offset: int, call: Call) -> _Deletion:
        try:
            check(self.authorization, call, Operation.DELETE, ResourceType.TOPIC, topic)
            partition = self.replicas.get(topic, index)
            if topic in INTERNAL_TOPICS:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            partition.check_leader()
            deleted = partition.delete_records(
                partition.high_watermark if offset == _HIGH_WATERMARK else offset
            )
        except ApiError as error:
            refused: Promise[int] = Promise()
            refused.fail(error)
            return _Deletion(refused)
        return _Deletion(deleted, partition.low_watermark)


class _Deletion(NamedTuple):
    """The deletion in one partition, and the low watermark when it began."""

    deleted: Promise[int]
    low_watermark: int = _UNKNOWN


class _PendingDeletion:
    """The response to one request, which is completed partition by partition."""

    def __init__(self) -> None:
        self.response: Promise[DeleteRecordsResponse] = Promise()
        self._topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, topic: str, index: int, deletion: _Deletion) -> None:
        result = DeleteRecordsPartitionResult(
            partition_index=index,
            low_watermark=deletion.low_watermark,
            error_code=ErrorCode.REQUEST_TIMED_OUT,
        )
        self._topics.setdefault(topic, []).append(result)
        self._waiting += 1
        deletion.deleted.when_done(partial(self._deleted, result))

    def wait(self, purgatory: Purgatory, timeout_s: float) -> None:
        """Respond when all partitions are done, or after the timeout."""
        if self._waiting:
            self._timer = purgatory.timer(max(0.0, timeout_s), self._respond)
        else:
            self._respond()

    def _deleted(
        self, result: DeleteRecordsPartitionResult, low_watermark: int | None, error: BaseException | None
    ) -> None:
        if self.response.done:
            return
        result.error_code = error.code if isinstance(error, ApiError) else ErrorCode.NONE
        result.low_watermark = _UNKNOWN if low_watermark is None else low_watermark
        self._waiting -= 1
        if self._timer is not None and not self._waiting:
            self._timer.cancel()
            self._respond()

    def _respond(self) -> None:
        topics = [
            DeleteRecordsTopicResult(name=name, partitions=results) for name, results in self._topics.items()
        ]
        self.response.keep(DeleteRecordsResponse(topics=topics))

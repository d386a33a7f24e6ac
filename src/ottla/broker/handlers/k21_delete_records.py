"""DeleteRecords (key 21), versions 0-2: move the start of a log up to an offset; -1 is the high watermark.

Internal topics refuse it (17), topics whose cleanup policy does not delete too (44), as does an offset outside of
the log (1).
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.registry import Call, handles
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK: Final = -1


@handles(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, versions=(0, 2))
def delete_records(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(topic.name, one, call) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(topic: str, wanted: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        partition = call.broker.replicas.get(topic, index)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.check_leader()
        low_watermark = partition.delete_records(
            partition.high_watermark if wanted.offset == _HIGH_WATERMARK else wanted.offset
        )
    except ApiError as error:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)

"""OffsetDelete (key 47), version 0: single offsets of a group are forgotten.

A group that nobody is in may lose any; one with members only those of topics that none of them reads.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.group_requests import TopicAnswers, by_name, code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, versions=(0, 0))
async def offset_delete(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    answers = TopicAnswers(_answer)
    request.topics = answers.existing(request.topics, call.broker.image, by_name)
    try:
        response = await call.broker.groups.write(
            request.group_id, lambda machine: machine.delete_offsets(request)
        )
    except ApiError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    return OffsetDeleteResponse(topics=answers.joined(response.topics))


def _answer(
    topic: OffsetDeleteRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ],
    )

"""OffsetCommit (key 8), versions 2-10: how far a group has read.

A member gives its generation or epoch; who is no member (an administrator, a consumer that assigns its partitions
itself) gives a negative one. The empty group id is one like any other. Version 10 names topics by id.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.broker.coordination.group_requests import TopicAnswers, answering, code_of
from ottla.broker.registry import Call, handles
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TOPIC_IDS: Final = 10


@handles(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, versions=(2, 10))
def offset_commit(
    request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
    version = call.api_version
    answers = TopicAnswers(_answer)
    by_id = version >= _TOPIC_IDS
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    find = _find_by_id if by_id else _find_by_name
    request.topics = answers.existing(request.topics, call.broker.image, find, missing)
    if not request.topics:
        return OffsetCommitResponse(topics=answers.joined([]))
    return answering(
        call.broker.groups.promised(
            request.group_id, lambda machine: machine.commit_offsets(request, version)
        ),
        lambda decided: OffsetCommitResponse(topics=answers.joined(decided.topics)),
        lambda error: OffsetCommitResponse(
            topics=answers.joined([answers.refused(topic, code_of(error)) for topic in request.topics])
        ),
    )


def _find_by_id(topic: OffsetCommitRequestTopic, image: MetadataImage) -> TopicImage | None:
    found = image.topics.by_id.get(topic.topic_id)
    # A name tells topics apart where an answer is put together, also those that have none.
    topic.name = f"{topic.topic_id}" if found is None else found.name
    return found


def _find_by_name(topic: OffsetCommitRequestTopic, image: MetadataImage) -> TopicImage | None:
    found = image.topics.by_name.get(topic.name)
    if found is not None:
        topic.topic_id = found.topic_id
    return found


def _answer(
    topic: OffsetCommitRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ],
    )

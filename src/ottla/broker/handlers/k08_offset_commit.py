"""OffsetCommit (key 8), versions 2-10: commits the offsets of a group.

A member sends its generation or epoch. A client that is not a member (an administrator, a consumer that assigns its
partitions itself) sends a negative one. The empty group id is valid. Version 10 identifies topics by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import TopicResponses, client_error, to_response
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TOPIC_IDS: Final = 10


@handles(
    ApiKey.OFFSET_COMMIT,
    OffsetCommitRequest,
    versions=(2, 10),
    requires=resources((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class OffsetCommit:
    """Commits offsets of existing partitions through the coordinator of the group."""

    authorization: Authorization
    metadata: MetadataCache
    groups: GroupCoordinator

    def handle(
        self, request: OffsetCommitRequest, call: Call
    ) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
        version = call.api_version
        responses = TopicResponses(_response)
        authorization = self.authorization
        if not authorization.allows(call.origin, Operation.READ, ResourceType.GROUP, request.group_id):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return OffsetCommitResponse(topics=[responses.refused(each, code) for each in request.topics])
        readable = name_filter(authorization, call, Operation.READ, ResourceType.TOPIC)
        by_id = version >= _TOPIC_IDS
        missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        find = _find_by_id if by_id else _find_by_name
        request.topics = responses.existing(request.topics, self.metadata.image, find, readable, missing)
        if not request.topics:
            return OffsetCommitResponse(topics=responses.joined([]))
        return to_response(
            self.groups.submit(request.group_id, lambda machine: machine.commit_offsets(request, version)),
            lambda decided: OffsetCommitResponse(topics=responses.joined(decided.topics)),
            lambda error: OffsetCommitResponse(
                topics=responses.joined(
                    [responses.refused(topic, client_error(error)) for topic in request.topics]
                )
            ),
        )


def _find_by_id(topic: OffsetCommitRequestTopic, image: MetadataImage) -> TopicImage | None:
    found = image.topics.by_id.get(topic.topic_id)
    # The response is assembled by name, so a topic that does not exist gets its id as its name.
    topic.name = f"{topic.topic_id}" if found is None else found.name
    return found


def _find_by_name(topic: OffsetCommitRequestTopic, image: MetadataImage) -> TopicImage | None:
    found = image.topics.by_name.get(topic.name)
    if found is not None:
        topic.topic_id = found.topic_id
    return found


def _response(
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

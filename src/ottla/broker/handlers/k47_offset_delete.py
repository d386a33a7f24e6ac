"""OffsetDelete (key 47), version 0: deletes single offsets of a group.

If the group has members, only offsets of topics that no member subscribes to can be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import TopicResponses, by_name, client_error
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(
    ApiKey.OFFSET_DELETE,
    OffsetDeleteRequest,
    versions=(0, 0),
    requires=resources((Operation.DELETE, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class OffsetDelete:
    """Deletes offsets of existing partitions through the coordinator of the group."""

    authorization: Authorization
    metadata: MetadataCache
    groups: GroupCoordinator

    async def handle(self, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
        if not self.authorization.allows(call.origin, Operation.DELETE, ResourceType.GROUP, request.group_id):
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        responses = TopicResponses(_response)
        readable = name_filter(self.authorization, call, Operation.READ, ResourceType.TOPIC)
        request.topics = responses.existing(request.topics, self.metadata.image, by_name, readable)
        try:
            response = await self.groups.write(
                request.group_id, lambda machine: machine.delete_offsets(request)
            )
        except ApiError as error:
            return OffsetDeleteResponse(error_code=client_error(error))
        return OffsetDeleteResponse(topics=responses.joined(response.topics))


def _response(
    topic: OffsetDeleteRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ],
    )

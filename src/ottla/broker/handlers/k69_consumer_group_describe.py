"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups, their members, current and target assignments."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import NameFilter, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error, consumer_protocol_enabled
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.repetitions import limited
from ottla.broker.requirements import resources
from ottla.config.dynamic import DynamicConfig
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    versions=(0, 1),
    requires=resources((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class ConsumerGroupDescribe:
    """Reads each group from its coordinator."""

    authorization: Authorization
    settings: DynamicConfig
    metadata: MetadataCache
    groups: GroupCoordinator

    async def handle(
        self, request: ConsumerGroupDescribeRequest, call: Call
    ) -> ConsumerGroupDescribeResponse:
        authorization, origin = self.authorization, call.origin
        if not consumer_protocol_enabled(self.settings, self.metadata.image):
            code = ErrorCode.UNSUPPORTED_VERSION
            return ConsumerGroupDescribeResponse(
                groups=[DescribedGroup(group_id=each, error_code=code) for each in request.group_ids]
            )
        allowed, denied = [], []
        for group_id in limited(request.group_ids):
            if authorization.allows(origin, Operation.DESCRIBE, ResourceType.GROUP, group_id):
                allowed.append(group_id)
            else:
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
                denied.append(DescribedGroup(group_id=group_id, error_code=code))
        groups = await asyncio.gather(*(self._describe(group_id) for group_id in allowed))
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = authorization.operations(
                        origin, ResourceType.GROUP, group.group_id
                    )
        visible = name_filter(authorization, call, Operation.DESCRIBE, ResourceType.TOPIC)
        return ConsumerGroupDescribeResponse(
            groups=[*denied, *(_with_visible_topics(group, visible) for group in groups)]
        )

    async def _describe(self, group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            return await self.groups.read(group_id, lambda machine: machine.describe_consumer(group_id))
        except ApiError as error:
            return DescribedGroup(group_id=group_id, error_code=client_error(error))


def _with_visible_topics(group: DescribedGroup, visible: NameFilter) -> DescribedGroup:
    """The group, or an error if a member has a topic that the client may not describe."""
    if visible is None:
        return group
    topics = {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
    if all(visible(name) for name in topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="a topic of the group may not be described by the client",
    )

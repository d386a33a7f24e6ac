"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups, their members, current and target assignments."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorized_operations import GROUP_OPERATIONS
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error, consumer_protocol_enabled
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.config.dynamic import DynamicConfig
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, versions=(0, 1))
@dataclass(frozen=True)
class ConsumerGroupDescribe:
    """Reads each group from its coordinator."""

    settings: DynamicConfig
    metadata: MetadataCache
    groups: GroupCoordinator

    async def handle(
        self, request: ConsumerGroupDescribeRequest, call: Call
    ) -> ConsumerGroupDescribeResponse:
        groups = await asyncio.gather(*(self._describe(group_id) for group_id in request.group_ids))
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=list(groups))

    async def _describe(self, group_id: str) -> DescribedGroup:
        if not consumer_protocol_enabled(self.settings, self.metadata.image):
            return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            return await self.groups.read(group_id, lambda machine: machine.describe_consumer(group_id))
        except ApiError as error:
            return DescribedGroup(group_id=group_id, error_code=client_error(error))

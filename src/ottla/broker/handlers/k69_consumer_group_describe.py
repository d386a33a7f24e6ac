"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups, their members, and what each has and is to have."""

from __future__ import annotations

import asyncio

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorized_operations import GROUP_OPERATIONS
from ottla.broker.coordination.group_requests import code_of, serves_consumer_groups
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, versions=(0, 1))
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    groups = await asyncio.gather(*(_describe(group_id, call) for group_id in request.group_ids))
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=list(groups))


async def _describe(group_id: str, call: Call) -> DescribedGroup:
    if not serves_consumer_groups(call):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        return await call.broker.groups.read(group_id, lambda machine: machine.describe_consumer(group_id))
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=code_of(error))

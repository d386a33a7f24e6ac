"""DescribeGroups (key 15), versions 0-6: classic groups, their members and what each was assigned.

A group that does not exist is "Dead"; from version 6 on that is an error, too.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorized_operations import GROUP_OPERATIONS
from ottla.broker.coordination.group_requests import code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_NOT_FOUND_IS_ERROR: Final = 6


@handles(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, versions=(0, 6))
async def describe_groups(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    groups = await asyncio.gather(*(_describe(group_id, call) for group_id in request.groups))
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=list(groups))


async def _describe(group_id: str, call: Call) -> DescribedGroup:
    try:
        group = await call.broker.groups.read(group_id, lambda machine: machine.describe(group_id))
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=code_of(error))
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and call.api_version < _NOT_FOUND_IS_ERROR:
        group.error_code, group.error_message = ErrorCode.NONE, None
    return group

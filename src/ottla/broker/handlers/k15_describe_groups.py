"""DescribeGroups (key 15), versions 0-6: classic groups, their members and assignments.

A group that does not exist is reported as "Dead"; from version 6 on also as an error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error
from ottla.broker.registry import Call, handles
from ottla.broker.repetitions import limited
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_NOT_FOUND_IS_ERROR: Final = 6


@handles(
    ApiKey.DESCRIBE_GROUPS,
    DescribeGroupsRequest,
    versions=(0, 6),
    requires=resources((Operation.DESCRIBE, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class DescribeGroups:
    """Reads each group from its coordinator."""

    authorization: Authorization
    groups: GroupCoordinator

    async def handle(self, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
        authorization, origin = self.authorization, call.origin
        allowed, denied = [], []
        for group_id in limited(request.groups):
            if authorization.allows(origin, Operation.DESCRIBE, ResourceType.GROUP, group_id):
                allowed.append(group_id)
            else:
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
                denied.append(DescribedGroup(group_id=group_id, error_code=code))
        groups = await asyncio.gather(*(self._describe(group_id, call) for group_id in allowed))
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = authorization.operations(
                        origin, ResourceType.GROUP, group.group_id
                    )
        return DescribeGroupsResponse(groups=[*denied, *groups])

    async def _describe(self, group_id: str, call: Call) -> DescribedGroup:
        try:
            group = await self.groups.read(group_id, lambda machine: machine.describe(group_id))
        except ApiError as error:
            return DescribedGroup(group_id=group_id, error_code=client_error(error))
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and call.api_version < _NOT_FOUND_IS_ERROR:
            group.error_code, group.error_message = ErrorCode.NONE, None
        return group

"""DeleteGroups (key 42), versions 0-2: deletes groups without members, and their offsets.

A group that occurs twice in the request is deleted once and occurs once in the response.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(
    ApiKey.DELETE_GROUPS,
    DeleteGroupsRequest,
    versions=(0, 2),
    requires=resources((Operation.DELETE, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class DeleteGroups:
    """Deletes each group through its coordinator."""

    authorization: Authorization
    groups: GroupCoordinator

    async def handle(self, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
        allowed, denied = [], []
        for name in dict.fromkeys(request.groups_names):
            if self.authorization.allows(call.origin, Operation.DELETE, ResourceType.GROUP, name):
                allowed.append(name)
            else:
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
                denied.append(DeletableGroupResult(group_id=name, error_code=code))
        results = await asyncio.gather(*(self._delete(name) for name in allowed))
        return DeleteGroupsResponse(results=[*results, *denied])

    async def _delete(self, group_id: str) -> DeletableGroupResult:
        try:
            return await self.groups.write(group_id, lambda machine: machine.delete_group(group_id))
        except ApiError as error:
            return DeletableGroupResult(group_id=group_id, error_code=client_error(error))

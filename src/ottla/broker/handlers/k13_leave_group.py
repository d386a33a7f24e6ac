"""LeaveGroup (key 13), versions 0-5: removes members of a classic group, from version 3 on several at once."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@handles(
    ApiKey.LEAVE_GROUP,
    LeaveGroupRequest,
    versions=(0, 5),
    requires=resources((Operation.READ, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class LeaveGroup:
    """Passes the request to the coordinator of the group."""

    authorization: Authorization
    groups: GroupCoordinator

    async def handle(self, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
        version = call.api_version
        try:
            check(self.authorization, call, Operation.READ, ResourceType.GROUP, request.group_id)
            return await self.groups.write(request.group_id, lambda machine: machine.leave(request, version))
        except ApiError as error:
            return LeaveGroupResponse(error_code=client_error(error))

"""LeaveGroup (key 13), versions 0-5: members leave a classic group, from version 3 on several at once."""

from __future__ import annotations

from ottla.base.errors import ApiError
from ottla.broker.coordination.group_requests import code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@handles(ApiKey.LEAVE_GROUP, LeaveGroupRequest, versions=(0, 5))
async def leave_group(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    version = call.api_version
    try:
        return await call.broker.groups.write(
            request.group_id, lambda machine: machine.leave(request, version)
        )
    except ApiError as error:
        return LeaveGroupResponse(error_code=code_of(error))

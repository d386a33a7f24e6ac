"""JoinGroup (key 11), versions 0-9: a client joins a group; answered when the join phase ends."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError
from ottla.broker.coordination.group_requests import client_of, code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_PROTOCOL_NULLABLE: Final = 7


@handles(ApiKey.JOIN_GROUP, JoinGroupRequest, versions=(0, 9))
async def join_group(request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    client, version = client_of(call), call.api_version
    try:
        response = await call.broker.groups.write(
            request.group_id, lambda machine: machine.join(request, client, version)
        )
    except ApiError as error:
        response = JoinGroupResponse(error_code=code_of(error))
    if version < _PROTOCOL_NULLABLE:
        response.protocol_name = response.protocol_name or ""
    elif response.error_code:
        response.protocol_name = None
    return response

"""JoinGroup (key 11), versions 0-9: adds a member to a classic group; responds when the join phase ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error, client_info
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_PROTOCOL_NULLABLE: Final = 7


@handles(
    ApiKey.JOIN_GROUP,
    JoinGroupRequest,
    versions=(0, 9),
    requires=resources((Operation.READ, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class JoinGroup:
    """Passes the request to the coordinator of the group."""

    authorization: Authorization
    groups: GroupCoordinator

    async def handle(self, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
        client, version = client_info(call, self.authorization), call.api_version
        try:
            check(self.authorization, call, Operation.READ, ResourceType.GROUP, request.group_id)
            response = await self.groups.write(
                request.group_id, lambda machine: machine.join(request, client, version)
            )
        except ApiError as error:
            response = JoinGroupResponse(error_code=client_error(error))
        if version < _PROTOCOL_NULLABLE:
            response.protocol_name = response.protocol_name or ""
        elif response.error_code:
            response.protocol_name = None
        return response

"""SyncGroup (key 14), versions 0-5: the leader of a classic group sends the assignment, each member gets its part.

From version 5 on the request must contain protocol type and name, so that a mismatch is detected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_NAMES_PROTOCOL: Final = 5


@handles(
    ApiKey.SYNC_GROUP,
    SyncGroupRequest,
    versions=(0, 5),
    requires=resources((Operation.READ, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class SyncGroup:
    """Passes the request to the coordinator of the group."""

    authorization: Authorization
    groups: GroupCoordinator

    async def handle(self, request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
        if call.api_version >= _NAMES_PROTOCOL and None in (request.protocol_type, request.protocol_name):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            check(self.authorization, call, Operation.READ, ResourceType.GROUP, request.group_id)
            return await self.groups.write(request.group_id, lambda machine: machine.sync(request))
        except ApiError as error:
            return SyncGroupResponse(error_code=client_error(error))

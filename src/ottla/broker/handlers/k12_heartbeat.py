"""Heartbeat (key 12), versions 0-4: keeps the session of a member of a classic group alive.

While the coordinator loads the group it does not know its members, and no session expires: the response is NONE.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error, to_response
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(
    ApiKey.HEARTBEAT,
    HeartbeatRequest,
    versions=(0, 4),
    requires=resources((Operation.READ, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class Heartbeat:
    """Passes the request to the coordinator of the group."""

    authorization: Authorization
    groups: GroupCoordinator

    def handle(self, request: HeartbeatRequest, call: Call) -> HeartbeatResponse | Promise[HeartbeatResponse]:
        if not self.authorization.allows(call.origin, Operation.READ, ResourceType.GROUP, request.group_id):
            return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return to_response(
            self.groups.submit(request.group_id, lambda machine: machine.heartbeat(request)),
            lambda decided: decided,
            _refused,
        )


def _refused(error: ApiError) -> HeartbeatResponse:
    loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else client_error(error))

"""Heartbeat (key 12), versions 0-4: a member of a classic group lives.

While its group is being loaded nobody knows the member, and its session cannot end either: all is well.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.coordination.group_requests import answering, code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT, HeartbeatRequest, versions=(0, 4))
def heartbeat(request: HeartbeatRequest, call: Call) -> Promise[HeartbeatResponse]:
    return answering(
        call.broker.groups.promised(request.group_id, lambda machine: machine.heartbeat(request)),
        lambda decided: decided,
        _refused,
    )


def _refused(error: ApiError) -> HeartbeatResponse:
    loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code_of(error))

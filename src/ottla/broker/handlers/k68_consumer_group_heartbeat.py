"""ConsumerGroupHeartbeat (key 68), versions 0-1: the one request by which members of consumer groups join, live,
learn their assignment, and leave (KIP-848). Version 1 can subscribe by a regular expression.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.broker.coordination.group_requests import answering, client_of, code_of, serves_consumer_groups
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest, versions=(0, 1))
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
    client, version = client_of(call), call.api_version
    if not serves_consumer_groups(call):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return answering(
        call.broker.groups.promised(
            request.group_id, lambda machine: machine.consumer_heartbeat(request, client, version)
        ),
        lambda decided: decided,
        lambda error: ConsumerGroupHeartbeatResponse(error_code=code_of(error), error_message=error.message),
    )

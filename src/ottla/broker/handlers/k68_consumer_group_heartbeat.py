"""ConsumerGroupHeartbeat (key 68), versions 0-1: members of consumer groups join, stay alive and leave (KIP-848).

The response contains the assignment of the member. Version 1 can subscribe by a regular expression.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import (
    client_error,
    client_info,
    consumer_protocol_enabled,
    to_response,
)
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.config.dynamic import DynamicConfig
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    versions=(0, 1),
    requires=resources((Operation.READ, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class ConsumerGroupHeartbeat:
    """Passes the request to the coordinator of the group."""

    authorization: Authorization
    settings: DynamicConfig
    metadata: MetadataCache
    groups: GroupCoordinator

    def handle(
        self, request: ConsumerGroupHeartbeatRequest, call: Call
    ) -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
        client, version = client_info(call, self.authorization), call.api_version
        if not consumer_protocol_enabled(self.settings, self.metadata.image):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        authorization = self.authorization
        if authorization.enabled:
            if not authorization.allows(call.origin, Operation.READ, ResourceType.GROUP, request.group_id):
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            visible = name_filter(authorization, call, Operation.DESCRIBE, ResourceType.TOPIC)
            if visible and not all(visible(name) for name in request.subscribed_topic_names or ()):
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return to_response(
            self.groups.submit(
                request.group_id, lambda machine: machine.consumer_heartbeat(request, client, version)
            ),
            lambda decided: decided,
            lambda error: ConsumerGroupHeartbeatResponse(
                error_code=client_error(error), error_message=error.message
            ),
        )

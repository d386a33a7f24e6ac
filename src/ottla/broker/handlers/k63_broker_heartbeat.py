"""BrokerHeartbeat (key 63), versions 0-2: extends the session of a broker."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


@handles(
    ApiKey.BROKER_HEARTBEAT,
    BrokerHeartbeatRequest,
    versions=(0, 2),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class BrokerHeartbeat:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: BrokerHeartbeatRequest, call: Call) -> BrokerHeartbeatResponse:
        return await self.controller.broker_heartbeat(request)

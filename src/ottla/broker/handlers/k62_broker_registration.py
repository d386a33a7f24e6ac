"""BrokerRegistration (key 62), versions 0-4: registers a broker process."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


@handles(
    ApiKey.BROKER_REGISTRATION,
    BrokerRegistrationRequest,
    versions=(0, 4),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class BrokerRegistration:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: BrokerRegistrationRequest, call: Call) -> BrokerRegistrationResponse:
        return await self.controller.register_broker(request)

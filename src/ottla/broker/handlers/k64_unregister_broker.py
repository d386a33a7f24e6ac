"""UnregisterBroker (key 64), version 0: removes a broker that was retired."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(
    ApiKey.UNREGISTER_BROKER,
    UnregisterBrokerRequest,
    versions=(0, 0),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class UnregisterBroker:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
        return await self.controller.unregister_broker(request)

"""ControllerRegistration (key 70), version 0: registers a controller process."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


@handles(
    ApiKey.CONTROLLER_REGISTRATION,
    ControllerRegistrationRequest,
    versions=(0, 0),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class ControllerRegistration:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(
        self, request: ControllerRegistrationRequest, call: Call
    ) -> ControllerRegistrationResponse:
        return await self.controller.register_controller(request)

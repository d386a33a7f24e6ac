"""ElectLeaders (key 43), versions 0-2: elects the preferred or, unclean, any replica as leader."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


@handles(
    ApiKey.ELECT_LEADERS,
    ElectLeadersRequest,
    versions=(0, 2),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
)
@dataclass(frozen=True)
class ElectLeaders:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
        return await self.controller.elect_leaders(request)

"""ElectLeaders (key 43), versions 0-2: elects the preferred or, unclean, any replica as leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_FIRST_ERROR_CODE: Final = 1


@handles(
    ApiKey.ELECT_LEADERS,
    ElectLeadersRequest,
    versions=(0, 2),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class ElectLeaders:
    """Passes the request to the controller. Version 0 has no error code for the whole request.

    Without partitions nothing is checked; null means all partitions.
    """

    controller: ControllerPort

    async def handle(self, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
        if request.topic_partitions is not None and not request.topic_partitions:
            return ElectLeadersResponse()
        response = await self.controller.elect_leaders(request)
        if call.api_version < _FIRST_ERROR_CODE:
            response.error_code = ErrorCode.NONE
        return response

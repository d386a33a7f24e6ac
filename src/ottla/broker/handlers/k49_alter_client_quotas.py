"""AlterClientQuotas (key 49), versions 0-1: sets and removes quotas (KIP-546)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse


@handles(
    ApiKey.ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    versions=(0, 1),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER_CONFIGS),
)
@dataclass(frozen=True)
class AlterClientQuotas:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
        return await self.controller.alter_client_quotas(request)

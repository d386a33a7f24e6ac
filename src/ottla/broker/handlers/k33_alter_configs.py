"""AlterConfigs (key 33), versions 0-2: replaces all settings of a resource.

Deprecated since KIP-339 in favour of IncrementalAlterConfigs. A broker refuses the settings of other brokers and
forwards the rest to the active controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ottla.broker.access import allows_cluster
from ottla.broker.authorization import Authorization
from ottla.broker.forwarding.config_resources import (
    ALTERATION,
    StoreCheck,
    alter_authorized,
    check_replaced_stores,
    forward_rest,
    own_replaced,
)
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(
    ApiKey.ALTER_CONFIGS,
    AlterConfigsRequest,
    versions=(0, 2),
    requires=ALTERATION,
)
@dataclass(frozen=True)
class AlterConfigs:
    """Passes resources of the whole cluster, and of this broker, to the active controller."""

    authorization: Authorization
    node_id: int
    controller: ControllerPort
    forwarder: Forwarder
    check_stores: StoreCheck

    async def handle(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        own = own_replaced(request, self.node_id)
        # Files are read only for clients that may alter the settings; the controller refuses the others.
        if allows_cluster(self.authorization, call, Operation.ALTER_CONFIGS, quiet=True):
            await check_replaced_stores(request, own, self.node_id, self.check_stores)
        return await forward_rest(request, own, partial(self._alter, call=call))

    async def _alter(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        """The controller checks the rights of the client, also if it is in this process."""
        if self.forwarder.is_active():
            return await alter_authorized(request, call, self.authorization, self.controller.alter_configs)
        return await self.forwarder.alter_configs(request, call.origin)


@handles(
    ApiKey.ALTER_CONFIGS,
    AlterConfigsRequest,
    versions=(0, 2),
    listeners=CONTROLLER,
    forwarded=True,
    requires=ALTERATION,
)
@dataclass(frozen=True)
class ControllerAlterConfigs:
    """Passes the request to the controller."""

    authorization: Authorization
    controller: ControllerPort

    async def handle(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        return await alter_authorized(request, call, self.authorization, self.controller.alter_configs)

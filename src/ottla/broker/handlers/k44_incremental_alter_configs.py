"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends to or subtracts from a setting.

KIP-339. Each resource is changed as a whole or not at all. A broker refuses the settings of other brokers, handles
loggers itself and forwards the rest to the active controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ottla.broker.access import allows_cluster
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.forwarding.config_resources import (
    ALTERATION,
    StoreCheck,
    alter_authorized,
    check_incremental_stores,
    forward_rest,
    own_incremental,
)
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.metadata.image import ResourceType as ConfigResourceType
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    versions=(0, 1),
    requires=ALTERATION,
)
@dataclass(frozen=True)
class IncrementalAlterConfigs:
    """Passes resources of the whole cluster, and of this broker, to the active controller."""

    authorization: Authorization
    node_id: int
    controller: ControllerPort
    forwarder: Forwarder
    metadata: MetadataCache
    check_stores: StoreCheck

    async def handle(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        own = own_incremental(request, self.node_id, call, self.authorization)
        # Files are read only for clients that may alter the settings; the controller refuses the others.
        if allows_cluster(self.authorization, call, Operation.ALTER_CONFIGS, quiet=True):
            stored = self.metadata.image.config(ConfigResourceType.BROKER, str(self.node_id))
            await check_incremental_stores(request, own, self.node_id, stored, self.check_stores)
        return await forward_rest(request, own, partial(self._alter, call=call))

    async def _alter(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        """The controller checks the rights of the client, also if it is in this process."""
        if self.forwarder.is_active():
            alter = self.controller.incremental_alter_configs
            return await alter_authorized(request, call, self.authorization, alter)
        return await self.forwarder.incremental_alter_configs(request, call.origin)


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    versions=(0, 1),
    listeners=CONTROLLER,
    forwarded=True,
    requires=ALTERATION,
)
@dataclass(frozen=True)
class ControllerIncrementalAlterConfigs:
    """Passes the request to the controller."""

    authorization: Authorization
    controller: ControllerPort

    async def handle(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        return await alter_authorized(
            request, call, self.authorization, self.controller.incremental_alter_configs
        )

"""UpdateFeatures (key 57), versions 0-2."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


@handles(
    ApiKey.UPDATE_FEATURES,
    UpdateFeaturesRequest,
    versions=(0, 2),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class UpdateFeatures:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
        return await self.controller.update_features(request, call.api_version)

"""UpdateFeatures (key 57), versions 0-2. Decided by the controller."""

from __future__ import annotations

from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


@handles(ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest, versions=(0, 2))
async def update_features(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    return await call.broker.controller.update_features(request, call.api_version)

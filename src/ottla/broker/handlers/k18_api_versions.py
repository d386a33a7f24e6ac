"""ApiVersions (key 18), versions 0-4: which APIs in which versions, and the features of the cluster.

The list is the registry of handlers. A request in an unknown version is answered too, in version 0, with
UNSUPPORTED_VERSION and this API's own versions alone (`call.api_version` is then -1). Features whose minimum is
0 are left out below version 4, whose clients could not read them (KIP-584). From version 3 on the client's
name and version must be of letters, digits, '-' and '.'.
"""

from __future__ import annotations

import re

from ottla.base.errors import ErrorCode
from ottla.broker.registry import ROUTES, Call, handles
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_VERSIONS = (0, 4)


@handles(ApiKey.API_VERSIONS, ApiVersionsRequest, versions=_VERSIONS)
def api_versions(request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
    if request is None:
        own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=_VERSIONS[0], max_version=_VERSIONS[1])
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
    if call.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    lowest = 0 if call.api_version >= 4 else 1
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=versions[0], max_version=versions[1])
            for key, route in sorted(ROUTES.items())
            if (versions := route.listed(call.broker.config)) is not None
        ],
        supported_features=[
            SupportedFeatureKey(name=one.name, min_version=one.min_version, max_version=one.max_version)
            for one in SUPPORTED_FEATURES
            if one.min_version >= lowest
        ],
        finalized_features_epoch=call.broker.image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in call.broker.finalized_features().items()
        ],
    )

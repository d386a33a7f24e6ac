"""ApiVersions (key 18), versions 0-4: the APIs of a listener and their versions, and the features of the cluster.

The list is derived from the declared handlers. The response to an unknown version is sent in version 0, with
UNSUPPORTED_VERSION and the versions of this API alone (`request` is None then). Features whose minimum is 0 are omitted
below version 4, whose clients cannot read them (KIP-584). From version 3 on name and version of the client software
must consist of letters, digits, '-' and '.'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, ListedApis, handles
from ottla.broker.requirements import NOTHING
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


@handles(
    ApiKey.API_VERSIONS,
    ApiVersionsRequest,
    versions=_VERSIONS,
    listeners=BROKER_AND_CONTROLLER,
    requires=NOTHING,
)
@dataclass(frozen=True)
class ApiVersions:
    """Lists the APIs of the listener that received the request."""

    listed_apis: ListedApis
    metadata: MetadataCache
    finalized_features: Callable[[], Mapping[str, int]]

    def handle(self, request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
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
                for key, versions in self.listed_apis.on(call.origin.listener.type).items()
            ],
            supported_features=[
                SupportedFeatureKey(name=one.name, min_version=one.min_version, max_version=one.max_version)
                for one in SUPPORTED_FEATURES
                if one.min_version >= lowest
            ],
            finalized_features_epoch=self.metadata.image.offset,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.finalized_features().items()
            ],
        )

"""ListConfigResources (key 74), versions 0-1: names of what has, or can have, settings. KIP-1142.

- v0 (once ListClientMetricsResources) lists client metrics subscriptions only;
- from v1 on `resource_types` chooses, none means all; a type that cannot be listed gives UNSUPPORTED_VERSION;
- topics and brokers are listed whether or not they have settings of their own, groups and subscriptions only
  if they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.registry import handles
from ottla.metadata.image import ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.registry import Call
    from ottla.metadata.image import MetadataImage

_TYPES = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


@handles(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest, versions=(0, 1))
def list_config_resources(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    wanted = request.resource_types if call.api_version > 0 else [ResourceType.CLIENT_METRICS]
    if any(kind not in _TYPES for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in _TYPES
            if not wanted or kind in wanted
            for name in _names(kind, call.broker.image)
        ]
    )


def _names(kind: ResourceType, image: MetadataImage) -> list[str]:
    if kind is ResourceType.TOPIC:
        return sorted(image.topics.by_name)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for resource, name in image.configs if resource == kind)

"""ListConfigResources (key 74), versions 0-1: the names of resources that have settings (KIP-1142).

- Version 0 (formerly ListClientMetricsResources) lists client metrics subscriptions only.
- From version 1 on `resource_types` selects types, empty means all; an unsupported type gives UNSUPPORTED_VERSION.
- All topics and brokers are listed; groups and subscriptions only if they have settings.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import cluster
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_TYPES = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


@handles(
    ApiKey.LIST_CONFIG_RESOURCES,
    ListConfigResourcesRequest,
    versions=(0, 1),
    requires=cluster(Operation.DESCRIBE_CONFIGS),
)
@dataclass(frozen=True)
class ListConfigResources:
    """Lists the resources of the newest image."""

    metadata: MetadataCache

    def handle(self, request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
        wanted = request.resource_types if call.api_version > 0 else [ResourceType.CLIENT_METRICS]
        if any(kind not in _TYPES for kind in wanted):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=kind)
                for kind in _TYPES
                if not wanted or kind in wanted
                for name in _names(kind, self.metadata.image)
            ]
        )


def _names(kind: ResourceType, image: MetadataImage) -> list[str]:
    if kind is ResourceType.TOPIC:
        return sorted(image.topics.by_name)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for resource, name in image.configs if resource == kind)

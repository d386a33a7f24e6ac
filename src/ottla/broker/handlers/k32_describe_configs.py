"""DescribeConfigs (key 32), versions 1-4: the settings of topics, brokers, groups and other resources.

Resources: topics (2), this node by its id or, as "", the dynamic defaults of all brokers (4), loggers (8), client
metrics subscriptions (16), groups (32). A resource of any other type makes the whole request invalid.

- Every setting is listed with value, source, synonyms, type and, from version 3 on if requested, documentation.
- `configuration_keys` null or empty means all; an unknown name is omitted.
- Secrets, and values of unknown names, are null and marked sensitive.
- The error message of a success is "", not null.
- A resource that is repeated too often, and those after the first 100,000 settings, are INVALID_REQUEST.
- The levels of single loggers cannot be set, so none is listed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.settled import next_iteration
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.forwarding.config_resources import denied_config
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.repetitions import REPETITIONS_MAX
from ottla.broker.requirements import resources
from ottla.config import BrokerLayers, ConfigEntry
from ottla.config.broker import BrokerConfig
from ottla.config.resolve import (
    describe_broker,
    describe_client_metrics,
    describe_dynamic_default,
    describe_group,
    describe_topic,
)
from ottla.metadata.image import ResourceType
from ottla.metadata.topic_names import check_topic_name
from ottla.security.resources import Operation
from ottla.security.resources import ResourceType as AclType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_SETTINGS_MAX: Final = 100_000
"""Settings in one response: those of 3,000 topics."""
_SETTINGS_PAUSE: Final = 2_000
_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}


@handles(
    ApiKey.DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    versions=(1, 4),
    listeners=BROKER_AND_CONTROLLER,
    requires=resources(
        (Operation.DESCRIBE_CONFIGS, AclType.CLUSTER),
        (Operation.DESCRIBE_CONFIGS, AclType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, AclType.GROUP),
    ),
)
@dataclass(frozen=True)
class DescribeConfigs:
    """Resolves the settings of resources from the image and the start configuration."""

    authorization: Authorization
    node_id: int
    config: BrokerConfig
    metadata: MetadataCache

    async def handle(self, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
        if any(resource.resource_type not in _TYPES for resource in request.resources):
            error = ApiError(ErrorCode.INVALID_REQUEST, "a resource has a type that cannot be described")
            return DescribeConfigsResponse(
                results=[_refused(resource, error) for resource in request.resources]
            )
        denied: list[DescribeConfigsResult] = []
        if self.authorization.enabled:
            denied = self._remove_denied(request, call)
        return DescribeConfigsResponse(results=await self._describe_all(request) + denied)

    def _remove_denied(self, request: DescribeConfigsRequest, call: Call) -> list[DescribeConfigsResult]:
        """Remove the resources that the client may not describe; returns their errors."""
        allowed, denied = [], []
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            error = denied_config(self.authorization, call, Operation.DESCRIBE_CONFIGS, kind, name)
            if error is None:
                allowed.append(resource)
            else:
                denied.append(_refused(resource, error))
        request.resources = allowed
        return denied

    async def _describe_all(self, request: DescribeConfigsRequest) -> list[DescribeConfigsResult]:
        """Describe the resources, within limits; other requests are handled meanwhile.

        A broker has hundreds of settings, and any name is that of a group: a request of a few kilobytes could otherwise
        have a response of gigabytes.
        """
        results: list[DescribeConfigsResult] = []
        described: Counter[tuple[int, str]] = Counter()
        settings = next_pause = 0
        for resource in request.resources:
            key = resource.resource_type, resource.resource_name
            described[key] += 1
            if described[key] > REPETITIONS_MAX:
                error = ApiError(ErrorCode.INVALID_REQUEST, "the request contains the resource too often")
                results.append(_refused(resource, error))
            elif settings > _SETTINGS_MAX:
                error = ApiError(ErrorCode.INVALID_REQUEST, "the request contains too many resources")
                results.append(_refused(resource, error))
            else:
                results.append(self._describe(resource, request))
                settings += len(results[-1].configs)
            if settings >= next_pause:
                next_pause = settings + _SETTINGS_PAUSE
                await next_iteration()
        return results

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        try:
            entries = self._entries(resource.resource_type, resource.resource_name)
        except ApiError as error:
            return _refused(resource, error)
        wanted = frozenset(resource.configuration_keys or ())
        return DescribeConfigsResult(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[_result(entry, request) for entry in entries if not wanted or entry.name in wanted],
        )

    def _entries(self, kind: int, name: str) -> list[ConfigEntry]:
        image = self.metadata.image
        layers = BrokerLayers(
            self.config,
            image.config(ResourceType.BROKER, ""),
            image.config(ResourceType.BROKER, str(self.node_id)),
        )
        if kind == ResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics.by_name:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return describe_topic(layers, image.config(kind, name))
        if kind == ResourceType.BROKER:
            if not name:
                return describe_dynamic_default(layers)
            _check_broker_id(name, self.node_id)
            return describe_broker(layers)
        if kind == ResourceType.BROKER_LOGGER:
            _check_broker_id(name, self.node_id)
            return []
        if not name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "the name of a group or client metrics subscription is empty"
            )
        if kind == ResourceType.GROUP:
            return describe_group(layers, image.config(kind, name))
        return describe_client_metrics(image.config(kind, name))


def _check_broker_id(name: str, node_id: int) -> None:
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name!r} is not a broker id")
    if int(name) != node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"this is broker {node_id}: send the request to broker {name}"
        )


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.type,
        documentation=(entry.doc or None) if request.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, error: ApiError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )

"""DescribeConfigs (key 32), versions 1-4.

Resources: topics (2), this broker by its id or, as "", what was set for all brokers (4), loggers (8), client
metrics subscriptions (16), groups (32). A resource of any other type makes the whole request invalid.

- every setting is listed with value, source, synonyms, type and, from v3 on and if asked, documentation;
- `configuration_keys` null or empty means all; a name that does not exist is left out;
- secrets, and values of names nobody knows, are null and marked sensitive;
- the text of success is "", not null;
- levels of single loggers cannot be set, so none is listed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.registry import handles
from ottla.config import BrokerLayers, ConfigEntry
from ottla.config.resolve import (
    describe_broker,
    describe_client_metrics,
    describe_dynamic_default,
    describe_group,
    describe_topic,
)
from ottla.metadata.image import ResourceType
from ottla.metadata.topic_names import check_topic_name
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from ottla.broker.registry import Call
    from ottla.broker.services import Broker

_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}


@handles(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, versions=(1, 4))
def describe_configs(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    if any(resource.resource_type not in _TYPES for resource in request.resources):
        error = ApiError(ErrorCode.INVALID_REQUEST, "a resource has a type that cannot be described")
        return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])
    return DescribeConfigsResponse(
        results=[_describe(resource, request, call.broker) for resource in request.resources]
    )


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, broker: Broker
) -> DescribeConfigsResult:
    try:
        entries = _entries(resource.resource_type, resource.resource_name, broker)
    except ApiError as error:
        return _refused(resource, error)
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(entry, request) for entry in entries if not wanted or entry.name in wanted],
    )


def _entries(kind: int, name: str, broker: Broker) -> list[ConfigEntry]:
    image = broker.image
    layers = BrokerLayers(
        broker.config,
        image.config(ResourceType.BROKER, ""),
        image.config(ResourceType.BROKER, str(broker.node_id)),
    )
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in image.topics.by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(layers, image.config(kind, name))
    if kind == ResourceType.BROKER:
        if not name:
            return describe_dynamic_default(layers)
        _check_broker_id(name, broker.node_id)
        return describe_broker(layers)
    if kind == ResourceType.BROKER_LOGGER:
        _check_broker_id(name, broker.node_id)
        return []
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "groups and client metrics subscriptions have names")
    if kind == ResourceType.GROUP:
        return describe_group(layers, image.config(kind, name))
    return describe_client_metrics(image.config(kind, name))


def _check_broker_id(name: str, node_id: int) -> None:
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", name):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name!r} is not a broker id")
    if int(name) != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {name} was asked of broker {node_id}")


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

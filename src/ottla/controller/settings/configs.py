"""Decisions about settings: AlterConfigs and IncrementalAlterConfigs.

The operations (set, delete, append, subtract), the form of a request (each resource and each key once, null only
in a deletion) and the order of checks. The rules for values are in `config_rules`. Resources are independent: if
one change of a resource is refused, none of its changes is made, and other resources are not affected.

A new `min.insync.replicas` clears the eligible leader replicas, as in Kafka: with a smaller one, records may be
committed that those replicas do not have.

AlterConfigs replaces all stored settings of a resource. Broker settings are appended even if they do not change,
because a repeated record makes brokers reload the files that a setting names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.config.dynamic_rules import check_definitions
from ottla.controller.decision import Decision, check_record_count
from ottla.controller.settings.config_rules import ConfigRules, check_broker_name, split_list
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.records import ClearElrRecord, ConfigRecord
from ottla.metadata.topic_names import check_topic_name
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.primitives import STRING_BYTES_MAX
from ottla.wire.schema import Message

_Resource = TypeVar("_Resource", AlterConfigsResource, IncrementalResource)
_Response = TypeVar("_Response", AlterConfigsResourceResponse, IncrementalResourceResponse)
_STORED: Final = frozenset(
    {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP}
)


class Operation(IntEnum):
    """Operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigManager:
    """Decisions about settings; it has no state of the cluster."""

    def __init__(self, rules: ConfigRules, node_id: int) -> None:
        self._rules = rules
        self._node_id = node_id

    def decide_incremental_alter(
        self, image: MetadataImage, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        """Apply single operations to what is stored."""
        records, responses = _decide_each(
            image, request.resources, self._alter_incrementally, _incremental_response
        )
        response = IncrementalAlterConfigsResponse(responses=responses)
        return Decision([] if request.validate_only else records, response)

    def decide_alter(
        self, image: MetadataImage, request: AlterConfigsRequest
    ) -> Decision[AlterConfigsResponse]:
        """Replace the stored settings of each resource."""
        records, responses = _decide_each(image, request.resources, self._replace, _response)
        return Decision([] if request.validate_only else records, AlterConfigsResponse(responses=responses))

    def _alter_incrementally(self, image: MetadataImage, resource: IncrementalResource) -> list[Message]:
        kind, name = resource.resource_type, resource.resource_name
        if kind == ResourceType.BROKER_LOGGER:
            _refuse_logger(resource, self._node_id)
        _check_kind(kind)
        if kind == ResourceType.BROKER:
            check_broker_name(name)
        stored = image.config(kind, name)
        changes = {
            entry.name: self._operate(kind, entry.name, entry.config_operation, entry.value, stored)
            for entry in resource.configs
        }
        configs = {key: value for key, value in {**stored, **changes}.items() if value is not None}
        self._check(image, kind, name, configs, changes)
        return _records(kind, name, stored, changes)

    def _replace(self, image: MetadataImage, resource: AlterConfigsResource) -> list[Message]:
        kind, name = resource.resource_type, resource.resource_name
        _check_kind(kind)
        if kind == ResourceType.BROKER:
            check_broker_name(name)
        stored = image.config(kind, name)
        configs = {entry.name: entry.value for entry in resource.configs if entry.value is not None}
        changes: dict[str, str | None] = {**configs, **{key: None for key in stored if key not in configs}}
        self._check(image, kind, name, configs, changes)
        return _records(kind, name, stored, changes)

    def _operate(
        self, kind: int, key: str, operation: int, value: str | None, stored: Mapping[str, str]
    ) -> str | None:
        """The value of a setting after one operation."""
        if operation == Operation.SET:
            return value
        if operation == Operation.DELETE:
            return None
        if operation not in (Operation.APPEND, Operation.SUBTRACT):
            code = (
                ErrorCode.INVALID_REQUEST if kind == ResourceType.BROKER else ErrorCode.UNKNOWN_SERVER_ERROR
            )
            raise ApiError(code, f"unknown operation {operation}; allowed: 0 to 3")
        default = self._rules.list_default(kind, key)
        if default is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"{key} is not a list; append and subtract are not allowed"
            )
        parts = split_list(stored[key]) if key in stored else default
        for part in (value or "").split(","):
            if operation == Operation.SUBTRACT:
                parts = [each for each in parts if each != part]
            elif part not in parts:
                parts.append(part)
        return ",".join(parts)

    def _check(
        self,
        image: MetadataImage,
        kind: int,
        name: str,
        configs: dict[str, str],
        changes: Mapping[str, str | None],
    ) -> None:
        """Refuse a resource that cannot have these settings, or that does not exist."""
        for key, value in changes.items():
            if value is not None and len(value.encode()) > STRING_BYTES_MAX:
                text = f"the value of {key} has {len(value.encode())} bytes; allowed: {STRING_BYTES_MAX}"
                raise ApiError(ErrorCode.INVALID_CONFIG, text)
        if kind == ResourceType.BROKER:
            self._rules.check_broker(image, name, configs, changes)
            if name and int(name) not in image.brokers and int(name) not in image.controllers:
                raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {name} is not registered")
        elif kind == ResourceType.CLIENT_METRICS:
            self._rules.check_client_metrics(name, configs)
        elif not name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "the name of the topic or group is missing; topics and groups have no default settings",
            )
        elif kind == ResourceType.GROUP:
            self._rules.check_group(image, configs, changes)
        else:
            check_topic_name(name)
            self._rules.check_topic(image, configs, changes)
            if name not in image.topics.by_name:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")


def _decide_each(
    image: MetadataImage,
    resources: Sequence[_Resource],
    change: Callable[[MetadataImage, _Resource], list[Message]],
    respond: Callable[[_Resource, ErrorCode, str | None], _Response],
) -> tuple[list[Message], list[_Response]]:
    """The records of all resources that can be changed, and a response for each resource."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    records: list[Message] = []
    responses = []
    for resource in resources:
        try:
            check_shape(resource, times)
            records += change(image, resource)
        except ApiError as error:
            responses.append(respond(resource, error.code, error.message))
        else:
            responses.append(respond(resource, ErrorCode.NONE, None))
    records += _clear_elr(image, records)
    check_record_count(len(records))
    return records, responses


def check_shape(
    resource: AlterConfigsResource | IncrementalResource, times: Mapping[tuple[int, str], int]
) -> None:
    """Raise ApiError for what is wrong whatever the resource is."""
    if times[resource.resource_type, resource.resource_name] > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a resource occurs more than once")
    names = [entry.name for entry in resource.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a setting of a resource occurs more than once")
    nulls = [
        entry.name
        for entry in resource.configs
        if entry.value is None and getattr(entry, "config_operation", Operation.SET) != Operation.DELETE
    ]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"settings without a value: {', '.join(nulls)}")


def check_definition(resource: AlterConfigsResource | IncrementalResource) -> None:
    """Raise ApiError for settings of brokers that are wrong whatever is stored: by their names and definitions."""
    if resource.resource_type != ResourceType.BROKER:
        return
    check_broker_name(resource.resource_name)
    texts = {
        entry.name: entry.value
        for entry in resource.configs
        if entry.value is not None and getattr(entry, "config_operation", Operation.SET) == Operation.SET
    }
    check_definitions(texts, texts, for_all_brokers=not resource.resource_name)


def _refuse_logger(resource: IncrementalResource, node_id: int) -> None:
    """Check a request for logger levels. Levels are not stored, so every logger is unknown."""
    if resource.resource_name != str(node_id):
        text = f"the resource name must be this broker's id, {node_id}, not {resource.resource_name!r}"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    for entry in resource.configs:
        if entry.config_operation not in (Operation.SET, Operation.DELETE):
            raise ApiError(ErrorCode.INVALID_REQUEST, "the level of a logger can only be set or deleted")
        raise ApiError(ErrorCode.INVALID_CONFIG, f"unknown logger {entry.name}")


def check_logger(
    resource: IncrementalResource, node_id: int, denied: ApiError | None = None
) -> IncrementalResourceResponse:
    """The response of node `node_id` to a change of logger levels; `denied` if the client may not change them."""
    try:
        check_shape(resource, Counter())
        if denied is not None:
            raise denied
        _refuse_logger(resource, node_id)
    except ApiError as error:
        return _incremental_response(resource, error.code, error.message)
    return _incremental_response(resource, ErrorCode.NONE, None)


def _check_kind(kind: int) -> None:
    if kind not in _STORED:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings that can be altered"
        )


def _records(
    kind: int, name: str, stored: Mapping[str, str], changes: Mapping[str, str | None]
) -> list[Message]:
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if kind == ResourceType.BROKER or stored.get(key) != value
    ]


def _clear_elr(image: MetadataImage, records: list[Message]) -> list[Message]:
    """Records that clear the eligible leader replicas, which were chosen by the old min.insync.replicas."""
    if not image.elr_enabled:
        return []
    changed = [
        each for each in records if isinstance(each, ConfigRecord) and each.name == "min.insync.replicas"
    ]
    is_topic = ResourceType.TOPIC
    return [
        ClearElrRecord(topic_name=each.resource_name if each.resource_type == is_topic else "")
        for each in changed
    ]


def refuse_incremental_alter(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None = None
) -> IncrementalAlterConfigsResponse:
    """The same error for every resource of a request."""
    return IncrementalAlterConfigsResponse(
        responses=[_incremental_response(resource, code, message) for resource in request.resources]
    )


def refuse_alter(
    request: AlterConfigsRequest, code: ErrorCode, message: str | None = None
) -> AlterConfigsResponse:
    """The same error for every resource of a request."""
    return AlterConfigsResponse(
        responses=[_response(resource, code, message) for resource in request.resources]
    )


def _incremental_response(
    resource: IncrementalResource, code: ErrorCode, message: str | None
) -> IncrementalResourceResponse:
    return IncrementalResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _response(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )

"""Resources of configuration requests that a broker handles itself instead of forwarding them to the controller.

The settings of one broker are altered at that broker only: the id of another broker is INVALID_REQUEST. The empty name
(all brokers) and all other resources are forwarded. Levels of loggers belong to the process that gets the request.
Key stores are files of this broker: it checks them before it forwards settings that name them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode, LocalError
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.access import DENIED, denied_text
from ottla.broker.authorization import Authorization
from ottla.broker.forwarding.refusals import refuse
from ottla.broker.registry import Call
from ottla.broker.requirements import resources
from ottla.controller.settings.configs import Operation as AlterOperation
from ottla.controller.settings.configs import (
    check_definition,
    check_logger,
    check_shape,
    refuse_alter,
    refuse_incremental_alter,
)
from ottla.metadata.image import ResourceType
from ottla.security.resources import CLUSTER, Operation
from ottla.security.resources import ResourceType as AclType
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

ALTERATION: Final = resources(
    (Operation.ALTER_CONFIGS, AclType.CLUSTER),
    (Operation.ALTER_CONFIGS, AclType.TOPIC),
    (Operation.ALTER_CONFIGS, AclType.GROUP),
)
"""The rights that are checked for AlterConfigs and IncrementalAlterConfigs."""
_ID_CHARACTERS_MAX: Final = 100
"""A number with more digits, leading zeros included, is no id; Python does not parse numbers of any length."""
StoreCheck = Callable[[Mapping[str, str]], Promise[None]]
"""Check the settings that this broker would have; the promise fails with LocalError if a store cannot be used."""
_STORE_SETTING: Final = re.compile(r"listener\.name\.[^.]+\.ssl\..+")
_CLUSTER_TYPES: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS)

Q = TypeVar("Q", AlterConfigsRequest, IncrementalAlterConfigsRequest)
R = TypeVar("R", AlterConfigsResponse, IncrementalAlterConfigsResponse)


def own_incremental(
    request: IncrementalAlterConfigsRequest, node_id: int, call: Call, authorization: Authorization
) -> dict[int, IncrementalResourceResponse]:
    """The responses for the resources that are not forwarded, by their index in the request."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    own = {}
    for index, resource in enumerate(request.resources):
        alone = IncrementalAlterConfigsRequest(resources=[resource])
        if times[resource.resource_type, resource.resource_name] > 1:
            continue  # the controller refuses them
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            denied = denied_config(
                authorization,
                call,
                Operation.ALTER_CONFIGS,
                resource.resource_type,
                resource.resource_name,
            )
            own[index] = check_logger(resource, node_id, denied)
        elif _is_other_broker(resource, node_id):
            text = _other_broker(node_id, resource.resource_name)
            (own[index],) = refuse_incremental_alter(alone, ErrorCode.INVALID_REQUEST, text).responses
    return own


def own_replaced(request: AlterConfigsRequest, node_id: int) -> dict[int, AlterConfigsResourceResponse]:
    """The responses for the resources that are not forwarded, by their index in the request."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    own = {}
    for index, resource in enumerate(request.resources):
        is_unique = times[resource.resource_type, resource.resource_name] == 1
        if is_unique and _is_other_broker(resource, node_id):
            alone = AlterConfigsRequest(resources=[resource])
            text = _other_broker(node_id, resource.resource_name)
            (own[index],) = refuse_alter(alone, ErrorCode.INVALID_REQUEST, text).responses
    return own


async def check_incremental_stores(
    request: IncrementalAlterConfigsRequest,
    own: dict[int, IncrementalResourceResponse],
    node_id: int,
    stored: Mapping[str, str],
    check: StoreCheck,
) -> None:
    """Add to `own` the refusals of settings with a key store that this broker cannot use."""
    for index, resource in enumerate(request.resources):
        if index in own or not _names_stores(resource, node_id):
            continue
        changed = {**stored}
        for each in resource.configs:
            changed.pop(each.name, None)
            if each.config_operation == AlterOperation.SET and each.value is not None:
                changed[each.name] = each.value
        try:
            await settled(check(changed))
        except LocalError as error:
            alone = IncrementalAlterConfigsRequest(resources=[resource])
            (own[index],) = refuse_incremental_alter(alone, ErrorCode.INVALID_REQUEST, str(error)).responses


async def check_replaced_stores(
    request: AlterConfigsRequest,
    own: dict[int, AlterConfigsResourceResponse],
    node_id: int,
    check: StoreCheck,
) -> None:
    """As `check_incremental_stores`, for a request that replaces all settings."""
    for index, resource in enumerate(request.resources):
        if index in own or not _names_stores(resource, node_id):
            continue
        try:
            await settled(
                check({each.name: each.value for each in resource.configs if each.value is not None})
            )
        except LocalError as error:
            alone = AlterConfigsRequest(resources=[resource])
            (own[index],) = refuse_alter(alone, ErrorCode.INVALID_REQUEST, str(error)).responses


def _names_stores(resource: AlterConfigsResource | IncrementalResource, node_id: int) -> bool:
    return (
        resource.resource_type == ResourceType.BROKER
        and resource.resource_name == str(node_id)
        and any(_STORE_SETTING.fullmatch(each.name) for each in resource.configs)
    )


async def forward_rest(request: Q, own: dict[int, Any], forward: Callable[[Q], Awaitable[R]]) -> R:
    """Forward the resources without a response in `own`; returns all responses in the order of the request."""
    if not own:
        return await forward(request)
    resources = [each for index, each in enumerate(request.resources) if index not in own]
    if not resources:
        return cast(R, _response(request, list(own.values())))
    result = await forward(replace(request, resources=resources))
    rest = iter(result.responses)
    result.responses = [own[index] if index in own else next(rest) for index in range(len(request.resources))]
    return result


def _response(request: Q, responses: list[Any]) -> AlterConfigsResponse | IncrementalAlterConfigsResponse:
    if isinstance(request, AlterConfigsRequest):
        return AlterConfigsResponse(responses=responses)
    return IncrementalAlterConfigsResponse(responses=responses)


def _is_other_broker(resource: AlterConfigsResource | IncrementalResource, node_id: int) -> bool:
    name = resource.resource_name
    return (
        resource.resource_type == ResourceType.BROKER
        and re.fullmatch(r"[+-]?[0-9]+", name) is not None
        and (len(name) > _ID_CHARACTERS_MAX or int(name) != node_id)
    )


def _other_broker(node_id: int, name: str) -> str:
    return f"this is broker {node_id}; send the request to broker {name}"


def denied_config(
    authorization: Authorization, call: Call, operation: Operation, kind: int, name: str
) -> ApiError | None:
    """The error of a resource whose settings the client may not describe or alter; None if it may.

    Resources of an unknown type are left to the handler, which refuses them.
    """
    if kind in _CLUSTER_TYPES:
        acl_type, name = AclType.CLUSTER, CLUSTER
    elif kind == ResourceType.TOPIC:
        acl_type = AclType.TOPIC
    elif kind == ResourceType.GROUP:
        acl_type = AclType.GROUP
    else:
        return None
    if authorization.allows(call.origin, operation, acl_type, name):
        return None
    return ApiError(DENIED[acl_type], denied_text(operation, acl_type))


async def alter_authorized(
    request: Q, call: Call, authorization: Authorization, alter: Callable[[Q], Awaitable[R]]
) -> R:
    """Alter the resources that the client may alter; the others get errors.

    As in Kafka, invalid entries are refused for that, whether the client may alter the resource or not. Settings of
    brokers are checked by their definitions only, so that a refusal does not reveal the settings of a broker.
    """
    if not authorization.enabled:
        return await alter(request)
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    denied: dict[int, Any] = {}
    for index, resource in enumerate(request.resources):
        try:
            check_shape(resource, times)
        except ApiError:
            continue  # the controller refuses it
        kind, operation = resource.resource_type, Operation.ALTER_CONFIGS
        if kind == ResourceType.BROKER_LOGGER:
            if isinstance(request, AlterConfigsRequest):
                continue  # the controller refuses it
            operation = Operation.CLUSTER_ACTION
        error = _invalid(resource) or denied_config(
            authorization, call, operation, kind, resource.resource_name
        )
        if error is not None:
            alone = replace(request, resources=[resource])
            refused: Any = refuse(alone, error.code, error.message, call.api_version)
            (denied[index],) = refused.responses
    return await forward_rest(request, denied, alter)


def _invalid(resource: AlterConfigsResource | IncrementalResource) -> ApiError | None:
    try:
        check_definition(resource)
    except ApiError as error:
        return error
    return None

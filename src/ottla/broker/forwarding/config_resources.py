"""Resources of configuration requests that a broker handles itself instead of forwarding them to the controller.

The settings of one broker are altered at that broker only: the id of another broker is INVALID_REQUEST. The empty name
(all brokers) and all other resources are forwarded. Levels of loggers belong to the process that gets the request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from ottla.base.errors import ErrorCode
from ottla.controller.configs import check_logger, refuse_alter, refuse_incremental_alter
from ottla.metadata.image import ResourceType
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

Q = TypeVar("Q", AlterConfigsRequest, IncrementalAlterConfigsRequest)
R = TypeVar("R", AlterConfigsResponse, IncrementalAlterConfigsResponse)


def own_incremental(
    request: IncrementalAlterConfigsRequest, node_id: int
) -> dict[int, IncrementalResourceResponse]:
    """The responses for the resources that are not forwarded, by their index in the request."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    own = {}
    for index, resource in enumerate(request.resources):
        alone = IncrementalAlterConfigsRequest(resources=[resource])
        if times[resource.resource_type, resource.resource_name] > 1:
            continue  # the controller refuses them
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            own[index] = check_logger(resource, node_id)
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


async def forward_rest(
    request: Q, own: dict[int, Any], forward: Callable[[Q], Awaitable[R]], response: Callable[[], R]
) -> R:
    """Forward the resources without a response in `own`; returns all responses in the order of the request."""
    if not own:
        return await forward(request)
    resources = [each for index, each in enumerate(request.resources) if index not in own]
    result = await forward(replace(request, resources=resources)) if resources else response()
    rest = iter(result.responses)
    result.responses = [own[index] if index in own else next(rest) for index in range(len(request.resources))]
    return result


def _is_other_broker(resource: AlterConfigsResource | IncrementalResource, node_id: int) -> bool:
    name = resource.resource_name
    return (
        resource.resource_type == ResourceType.BROKER
        and re.fullmatch(r"[+-]?[0-9]+", name) is not None
        and int(name) != node_id
    )


def _other_broker(node_id: int, name: str) -> str:
    return f"this is broker {node_id}; send the request to broker {name}"

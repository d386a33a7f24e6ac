"""CreatePartitions (key 37), versions 0-3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.quotas import Quotas
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

_STRICT_SINCE: Final = 3
"""The first version that is refused if the quota of changed partitions is exceeded; older ones are only throttled."""


@handles(
    ApiKey.CREATE_PARTITIONS,
    CreatePartitionsRequest,
    versions=(0, 3),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=resources((Operation.ALTER, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class CreatePartitions:
    """Passes the request to the controller."""

    authorization: Authorization
    controller: ControllerPort
    quotas: Quotas

    async def handle(self, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
        allowed = name_filter(self.authorization, call, Operation.ALTER, ResourceType.TOPIC)
        denied = [] if allowed is None else _remove_denied(request, allowed)
        charge = self.quotas.mutations(call, strict=call.api_version >= _STRICT_SINCE)
        response = await self.controller.create_partitions(request, charge)
        response.throttle_time_ms = charge.throttle_ms
        response.results += denied
        return response


def _remove_denied(
    request: CreatePartitionsRequest, allowed: Callable[[str], bool]
) -> list[CreatePartitionsTopicResult]:
    """Remove the topics that the client may not alter; returns their errors. The controller refuses invalid ones."""
    times = Counter(topic.name for topic in request.topics)
    denied = {name for name, count in times.items() if count == 1 and not allowed(name)}
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=None)
        for topic in request.topics
        if topic.name in denied
    ]
    request.topics = [topic for topic in request.topics if topic.name not in denied]
    return refused

"""CreateTopics (key 19), versions 2-7: the response is sent when the topics can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import METADATA_TOPIC
from ottla.broker.access import allows_cluster, denied_text, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.quotas import Quotas
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

_TEXT: Final = denied_text(Operation.CREATE, ResourceType.TOPIC)

_STRICT_SINCE: Final = 6
"""The first version that is refused if the quota of changed partitions is exceeded; older ones are only throttled."""


@handles(
    ApiKey.CREATE_TOPICS,
    CreateTopicsRequest,
    versions=(2, 7),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=resources(
        (Operation.CREATE, ResourceType.CLUSTER),
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    ),
)
@dataclass(frozen=True)
class CreateTopics:
    """Passes the request to the controller."""

    authorization: Authorization
    controller: ControllerPort
    quotas: Quotas

    async def handle(self, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
        authorization, allowed = self.authorization, None
        if not allows_cluster(authorization, call, Operation.CREATE, quiet=True):
            allowed = name_filter(authorization, call, Operation.CREATE, ResourceType.TOPIC)
        denied = [] if allowed is None else _remove_denied(request, allowed)
        charge = self.quotas.mutations(call, strict=call.api_version >= _STRICT_SINCE)
        response = await self.controller.create_topics(request, charge)
        response.throttle_time_ms = charge.throttle_ms
        described = name_filter(
            authorization, call, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, quiet=True
        )
        for topic in response.topics:
            if described is not None and not topic.error_code and not described(topic.name):
                _hide_details(topic)
        response.topics += denied
        return response


def _remove_denied(
    request: CreateTopicsRequest, allowed: Callable[[str], bool]
) -> list[CreatableTopicResult]:
    """Remove the topics that the client may not create; returns their errors. The controller refuses invalid ones."""
    times = Counter(topic.name for topic in request.topics)
    denied = {
        name for name, count in times.items() if count == 1 and name != METADATA_TOPIC and not allowed(name)
    }
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        CreatableTopicResult(name=topic.name, error_code=code, error_message=_TEXT)
        for topic in request.topics
        if topic.name in denied
    ]
    request.topics = [topic for topic in request.topics if topic.name not in denied]
    return refused


def _hide_details(topic: CreatableTopicResult) -> None:
    """Leave out what only a client sees that may describe the settings of the topic."""
    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic.num_partitions = topic.replication_factor = -1
    topic.configs = []

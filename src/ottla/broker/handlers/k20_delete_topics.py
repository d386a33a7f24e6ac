"""DeleteTopics (key 20), versions 1-6: by name, from version 6 on by name or id."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.access import allows_cluster, denied_text
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.quotas import Quotas
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.config.broker import BrokerConfig
from ottla.controller.partitions.topics import refuse_delete, valid_deletions
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

_TEXTS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: denied_text(Operation.DELETE, ResourceType.TOPIC),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist",
    ErrorCode.UNKNOWN_TOPIC_ID: "no topic has this id",
}

_STRICT_SINCE: Final = 5
"""The first version that is refused if the quota of changed partitions is exceeded; older ones are only throttled."""


@handles(
    ApiKey.DELETE_TOPICS,
    DeleteTopicsRequest,
    versions=(1, 6),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=resources(
        (Operation.DELETE, ResourceType.CLUSTER),
        (Operation.DELETE, ResourceType.TOPIC),
        (Operation.DESCRIBE, ResourceType.TOPIC),
    ),
)
@dataclass(frozen=True)
class DeleteTopics:
    """Passes the request to the controller."""

    authorization: Authorization
    config: BrokerConfig
    metadata: MetadataCache
    controller: ControllerPort
    quotas: Quotas

    async def handle(self, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
        authorization, denied = self.authorization, []
        enabled = self.config.bool("delete.topic.enable")  # otherwise the controller refuses every topic
        if enabled and request.timeout_ms <= 0 and any(valid_deletions(request)):
            # Before the rights are checked, as in Kafka. Invalid entries alone are refused at once.
            return refuse_delete(request, ErrorCode.REQUEST_TIMED_OUT)
        if (
            enabled
            and authorization.enabled
            and not allows_cluster(authorization, call, Operation.DELETE, quiet=True)
        ):
            denied = self._remove_denied(request, call)
        charge = self.quotas.mutations(call, strict=call.api_version >= _STRICT_SINCE)
        response = await self.controller.delete_topics(request, call.api_version, charge)
        response.throttle_time_ms = charge.throttle_ms
        response.responses += denied
        return response

    def _remove_denied(self, request: DeleteTopicsRequest, call: Call) -> list[DeletableTopicResult]:
        """Remove the topics that the client may not delete; returns their errors.

        A topic that the client may not describe has the same error whether it exists or not. Topics that are named
        twice, and other invalid entries, are left to the controller, which refuses them.
        """
        names, ids = valid_deletions(request)
        denied = {name: self._by_name(name, call) for name in names}
        denied_ids = {each: self._by_id(each, call) for each in ids}
        request.topic_names = [name for name in request.topic_names if denied.get(name) is None]
        request.topics = [
            each
            for each in request.topics
            if (each.name is not None and each.topic_id != ZERO_UUID)
            or (denied_ids.get(each.topic_id) if each.name is None else denied.get(each.name)) is None
        ]
        return [each for each in (*denied.values(), *denied_ids.values()) if each is not None]

    def _by_name(self, name: str, call: Call) -> DeletableTopicResult | None:
        """The error of a topic that the request names; None if the client may delete it."""
        allows = partial(self.authorization.allows, call.origin)
        if not allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return _refused(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if allows(Operation.DELETE, ResourceType.TOPIC, name):
            return None
        exists = name in self.metadata.image.topics.by_name
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(name, ZERO_UUID, code)

    def _by_id(self, topic_id: Uuid, call: Call) -> DeletableTopicResult | None:
        """The error of a topic that the request identifies; None if the client may delete it.

        An id that this node does not know is refused here, because the controller may know it already.
        """
        topic = self.metadata.image.topics.by_id.get(topic_id)
        if topic is None:
            return _refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        allows = partial(self.authorization.allows, call.origin)
        if allows(Operation.DELETE, ResourceType.TOPIC, topic.name):
            return None
        visible = allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        return _refused(topic.name if visible else None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _refused(name: str | None, topic_id: Uuid, code: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=_TEXTS[code])

"""FindCoordinator (key 10), versions 0-6: returns the broker that coordinates a group or a transaction.

That is the leader of the partition to which the id is mapped. The internal topic is created if it does not exist:
Kafka first responds with COORDINATOR_NOT_AVAILABLE and the client retries; here the response waits for the topic, and
only a coordinator on another broker, which may not know the new topic yet, is not available at first. From version 4
on a request contains several ids; before, an error applies to the whole request. Version 6 adds share groups, which
are not supported: an invalid request, as in a Kafka without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import DENIED, allows_cluster, denied_text
from ottla.broker.authorization import Authorization
from ottla.broker.coordination import coordinators
from ottla.broker.coordination.coordinators import GroupCoordinator, TxnCoordinator
from ottla.broker.coordination.internal_topics import creation
from ottla.broker.dependencies import MetadataCache
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import NO_LEADER
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SEVERAL_IDS: Final = 4
_CREATION_TIMEOUT_MS: Final = 30_000
_INVALID: Final = "the coordinator type is not supported"
_SHARE: Final = 2
_SHARE_GROUPS: Final = 6
_DESCRIBED: Final = {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}
_TEXTS_OF_KEYS: Final = {
    ErrorCode.INVALID_REQUEST: _INVALID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: denied_text(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
}
_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: denied_text(Operation.DESCRIBE, ResourceType.GROUP),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: denied_text(
        Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID
    ),
    ErrorCode.INVALID_REQUEST: _INVALID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available",
}


def _text(error: ErrorCode, key_type: int) -> str:
    """Return the text of one key. Kafka has none for a share group."""
    return "" if (error, key_type) == (ErrorCode.INVALID_REQUEST, _SHARE) else _TEXTS_OF_KEYS.get(error, "")


class _Node(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(
    ApiKey.FIND_COORDINATOR,
    FindCoordinatorRequest,
    versions=(0, 6),
    requires=resources(
        (Operation.DESCRIBE, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
@dataclass(frozen=True)
class FindCoordinator:
    """Looks the leader of the responsible partition up in the metadata."""

    authorization: Authorization
    node_id: int
    config: BrokerConfig
    metadata: MetadataCache
    forwarder: Forwarder
    groups: GroupCoordinator
    transactions: TxnCoordinator

    async def handle(self, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
        if call.api_version >= _SEVERAL_IDS:
            keys, kind = request.coordinator_keys, request.key_type
            if keys and self._lacks_cluster_action(kind, call):
                found = [_Node(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * len(keys)
            else:
                found = [await self._find(key, kind, call) for key in keys]
            return FindCoordinatorResponse(
                coordinators=[
                    Coordinator(
                        key=key,
                        node_id=node.node_id,
                        host=node.host,
                        port=node.port,
                        error_code=node.error,
                        error_message=_text(node.error, kind),
                    )
                    for key, node in zip(request.coordinator_keys, found, strict=True)
                ]
            )
        node = await self._find(request.key, request.key_type, call)
        return FindCoordinatorResponse(
            error_code=node.error,
            error_message=_MESSAGES[node.error],
            node_id=node.node_id,
            host=node.host,
            port=node.port,
        )

    def _lacks_cluster_action(self, key_type: int, call: Call) -> bool:
        """Whether a client that is not a broker looks up the coordinator of a share group."""
        is_share = key_type == _SHARE and call.api_version >= _SHARE_GROUPS
        return is_share and not allows_cluster(self.authorization, call, Operation.CLUSTER_ACTION)

    async def _find(self, key: str, key_type: int, call: Call) -> _Node:
        kind = _DESCRIBED.get(key_type)
        if kind and not self.authorization.allows(call.origin, Operation.DESCRIBE, kind, key):
            return _Node(DENIED[kind])
        coordinator: coordinators.Coordinator[Any]
        if key_type == _GROUP:
            coordinator = self.groups
        elif key_type == _TRANSACTION:
            coordinator = self.transactions
        else:
            return _Node(ErrorCode.INVALID_REQUEST)
        is_new = coordinator.topic not in self.metadata.image.topics.by_name
        if is_new and not await self._create(coordinator.topic):
            return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        image = self.metadata.image
        topic = image.topics.by_name.get(coordinator.topic)
        partition = None if topic is None else topic.partitions.get(coordinator.partition_for(key))
        if partition is None or partition.leader == NO_LEADER:
            return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if is_new and partition.leader != self.node_id:
            return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = image.brokers.get(partition.leader)
        for endpoint in () if leader is None or leader.fenced else leader.endpoints:
            if endpoint.name == call.origin.listener.name:
                return _Node(ErrorCode.NONE, partition.leader, endpoint.host, endpoint.port)
        return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _create(self, topic: str) -> bool:
        """Create the internal topic; False if it cannot be created now."""
        request = CreateTopicsRequest(
            topics=[creation(topic, self.config, self.metadata.image)], timeout_ms=_CREATION_TIMEOUT_MS
        )
        try:
            response = await self.forwarder.create_topics(request)
        except ApiError:
            return False
        return response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

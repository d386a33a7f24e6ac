"""FindCoordinator (key 10), versions 0-6: which broker coordinates a group or a transaction.

The one who leads the partition that is responsible for the id. A topic that does not exist yet is made: Kafka
answers COORDINATOR_NOT_AVAILABLE first and lets the client ask again, here the answer waits for the topic. From
version 4 on several ids at once; before, errors are told for the whole request. Coordinators of share groups are
asked for in version 6; there is none, so as in Kafka without one it is an invalid request.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.coordinators import Coordinator as Responsible
from ottla.broker.coordination.internal_topics import creation
from ottla.broker.registry import Call, handles
from ottla.metadata.image import NO_LEADER
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_OF_MANY: Final = 4
_CREATION_TIMEOUT_MS: Final = 30_000
_INVALID: Final = "there is no coordinator of that kind"
_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.INVALID_REQUEST: _INVALID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available",
}


class _Node(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, versions=(0, 6))
async def find_coordinator(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.api_version >= _FIRST_OF_MANY:
        coordinators = []
        for key in request.coordinator_keys:
            found = await _find(key, request.key_type, call)
            coordinators.append(
                Coordinator(
                    key=key,
                    node_id=found.node_id,
                    host=found.host,
                    port=found.port,
                    error_code=found.error,
                    error_message=_INVALID if found.error is ErrorCode.INVALID_REQUEST else "",
                )
            )
        return FindCoordinatorResponse(coordinators=coordinators)
    found = await _find(request.key, request.key_type, call)
    return FindCoordinatorResponse(
        error_code=found.error,
        error_message=_MESSAGES[found.error],
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(key: str, key_type: int, call: Call) -> _Node:
    responsible: Responsible[Any]
    if key_type == _GROUP:
        responsible = call.broker.groups
    elif key_type == _TRANSACTION:
        responsible = call.broker.transactions
    else:
        return _Node(ErrorCode.INVALID_REQUEST)
    if responsible.topic not in call.broker.image.topics.by_name and not await _created(
        responsible.topic, call
    ):
        return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    image = call.broker.image
    topic = image.topics.by_name.get(responsible.topic)
    partition = None if topic is None else topic.partitions.get(responsible.partition_for(key))
    if partition is None or partition.leader == NO_LEADER:
        return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = image.brokers.get(partition.leader)
    for endpoint in () if leader is None or leader.fenced else leader.endpoints:
        if endpoint.name == call.listener.name:
            return _Node(ErrorCode.NONE, partition.leader, endpoint.host, endpoint.port)
    return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def _created(topic: str, call: Call) -> bool:
    """Make the topic; False if that cannot be, now."""
    request = CreateTopicsRequest(
        topics=[creation(topic, call.broker.config)], timeout_ms=_CREATION_TIMEOUT_MS
    )
    try:
        response = await call.broker.controller.create_topics(request)
    except ApiError:
        return False
    return response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

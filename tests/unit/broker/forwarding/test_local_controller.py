"""Requests to the controller in the same process."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.settled import settled
from ottla.broker.forwarding.local_controller import LocalController
from ottla.controller.port import ControllerPort
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Message

RESPONSES: dict[type[Message], type[Message]] = {
    AllocateProducerIdsRequest: AllocateProducerIdsResponse,
    AlterPartitionRequest: AlterPartitionResponse,
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest: BrokerHeartbeatResponse,
    BrokerRegistrationRequest: BrokerRegistrationResponse,
    ControllerRegistrationRequest: ControllerRegistrationResponse,
    EnvelopeRequest: EnvelopeResponse,
}


class FakeController:
    """Responds to each method with an empty response."""

    async def respond(self, request: Message, api_version: int = 0) -> Message:
        return RESPONSES[type(request)]()

    broker_heartbeat = alter_partition = allocate_producer_ids = respond
    assign_replicas_to_dirs = register_broker = register_controller = respond


async def settle(message: Message) -> Any:
    fake = FakeController()
    local = LocalController(asyncio.get_running_loop(), cast(ControllerPort, fake), cast(Any, fake.respond))
    return await settled(local(message))


@pytest.mark.parametrize("request_type", RESPONSES)
def test_each_request_is_passed_to_its_method(request_type: type[Message]) -> None:
    assert type(asyncio.run(settle(request_type()))) is RESPONSES[request_type]


def test_any_other_request_fails() -> None:
    with pytest.raises(InvariantViolation):
        asyncio.run(settle(MetadataRequest()))

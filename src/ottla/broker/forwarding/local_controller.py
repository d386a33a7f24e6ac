"""Requests of this node to the controller in the same process, as the controller channel sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.base.errors import InvariantViolation
from ottla.base.promise import Promise
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.origin import Origin
from ottla.controller.port import ControllerPort
from ottla.security.principal import NODE
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.schema import Message

_LISTENER: Final = Listener("LOCAL", "", 0, "", 0, ListenerType.CONTROLLER)
_NEWEST_ALTER_PARTITION: Final = AlterPartitionRequest.SPEC.versions[-1]


class LocalController:
    """Calls the method of the controller that handles a request. Each call runs as a task."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        controller: ControllerPort,
        envelopes: Callable[[EnvelopeRequest, Origin], Awaitable[EnvelopeResponse]],
    ) -> None:
        self._loop = loop
        self._controller = controller
        self._envelopes = envelopes
        self._this_node = Origin(_LISTENER, "127.0.0.1", None, NODE)
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, message: Message) -> Promise[Message]:
        promise: Promise[Message] = Promise()
        task = self._loop.create_task(self._run(message, promise))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return promise

    async def _run(self, message: Message, promise: Promise[Message]) -> None:
        try:
            response = await self._handle(message)
        except Exception as error:  # noqa: BLE001 - the caller of the channel gets the error
            promise.fail(error)
        else:
            promise.keep(response)

    def _handle(self, message: Message) -> Awaitable[Message]:
        controller = self._controller
        match message:
            case BrokerHeartbeatRequest():
                return controller.broker_heartbeat(message)
            case AlterPartitionRequest():
                return controller.alter_partition(message, _NEWEST_ALTER_PARTITION)
            case EnvelopeRequest():
                return self._envelopes(message, self._this_node)
            case AllocateProducerIdsRequest():
                return controller.allocate_producer_ids(message)
            case AssignReplicasToDirsRequest():
                return controller.assign_replicas_to_dirs(message)
            case BrokerRegistrationRequest():
                return controller.register_broker(message)
            case ControllerRegistrationRequest():
                return controller.register_controller(message)
            case _:
                raise InvariantViolation(f"{type(message).__name__} is not a request to the controller")

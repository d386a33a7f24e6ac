from __future__ import annotations

import asyncio
import uuid
from typing import cast

import pytest

from ottla.base.errors import InvariantViolation
from ottla.controller.port import ControllerPort, NodeRegistration
from ottla.metadata.image import Endpoint
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import encode_record
from ottla.node.lifecycle import NOT_REGISTERED, BrokerLifecycle
from ottla.quorum.quorum import CommittedBatch
from tests.support.fake_quorum import FakeQuorum
from tests.support.metadata import broker_record, features

NODE = NodeRegistration(1, uuid.UUID(int=5), (Endpoint("PLAINTEXT", "h", 1),), (uuid.UUID(int=6),))


class RemoteController:
    """Responds at once, before this node has applied the registration: a controller on another node."""

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self.unfenced: list[tuple[int, int]] = []

    async def register_node(self, node: NodeRegistration) -> int:
        return self.broker_epoch

    async def unfence_broker(self, broker_id: int, broker_epoch: int) -> None:
        self.unfenced.append((broker_id, broker_epoch))


def commit(publisher: MetadataPublisher, offset: int, epoch: int) -> None:
    """Commit a registration of broker 1 under a broker epoch."""
    values = [encode_record(record, 30) for record in (*features(), broker_record(1, epoch=epoch))]
    publisher.committed([CommittedBatch(offset, 1, 0, values)])


def test_registration_waits_until_this_node_has_applied_it() -> None:
    async def scenario() -> None:
        publisher = MetadataPublisher(FakeQuorum())
        controller = RemoteController(20)
        lifecycle = BrokerLifecycle(1, cast(ControllerPort, controller), publisher)
        assert lifecycle.broker_epoch == NOT_REGISTERED
        registered = asyncio.ensure_future(lifecycle.register(NODE))
        commit(publisher, 10, 9)  # the earlier incarnation of this node
        for _ in range(5):
            await asyncio.sleep(0)
        assert not registered.done()
        commit(publisher, 20, 20)
        await registered
        await lifecycle.unfence()
        assert (lifecycle.broker_epoch, controller.unfenced) == (20, [(1, 20)])

    asyncio.run(scenario())


def test_image_with_another_incarnation_is_a_violated_invariant() -> None:
    async def scenario() -> None:
        publisher = MetadataPublisher(FakeQuorum())
        commit(publisher, 30, 9)
        with pytest.raises(InvariantViolation, match="incarnation"):
            await BrokerLifecycle(1, cast(ControllerPort, RemoteController(20)), publisher).register(NODE)

    asyncio.run(scenario())

"""The registration of this node as a broker: register, catch up, unfence.

A node leads partitions only after its own registration has been applied here: the image from before belongs to
its earlier incarnation, whose leader epochs must not be used again. Unfencing gives it new leader epochs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.base.errors import invariant
from ottla.base.rng import Random, random_uuid
from ottla.controller.port import ControllerPort, NodeRegistration
from ottla.metadata.image import Endpoint
from ottla.metadata.publisher import MetadataPublisher
from ottla.storage.log_dir import LogDir

if TYPE_CHECKING:
    from ottla.broker.net.listeners import Listener
    from ottla.node.config import NodeConfig

NOT_REGISTERED = -1


class BrokerLifecycle:
    """One incarnation of this broker. `broker_epoch` is valid after `register`."""

    def __init__(self, node_id: int, controller: ControllerPort, publisher: MetadataPublisher) -> None:
        self.broker_epoch = NOT_REGISTERED
        self._node_id = node_id
        self._controller = controller
        self._publisher = publisher

    async def register(self, node: NodeRegistration) -> None:
        """Register this node, fenced, and wait until this node has applied the registration."""
        self.broker_epoch = await self._controller.register_node(node)
        await self._applied(self.broker_epoch)  # a broker epoch is the offset of its registration
        broker = self._publisher.image.brokers.get(self._node_id)
        invariant(
            broker is not None and broker.epoch == self.broker_epoch,
            "the image has this incarnation of the node",
        )

    async def unfence(self) -> None:
        """Ask the controller to unfence this broker: it leads its partitions under new leader epochs."""
        await self._controller.unfence_broker(self._node_id, self.broker_epoch)

    async def _applied(self, offset: int) -> None:
        applied = asyncio.Event()
        self._publisher.when_applied(offset, applied.set)
        await applied.wait()


def registration(
    config: NodeConfig, listeners: Sequence[Listener], log_dirs: Iterable[LogDir], rng: Random
) -> NodeRegistration:
    """The registration of a new incarnation of this node, with the log directories that are online."""
    return NodeRegistration(
        node_id=config.node_id,
        incarnation_id=random_uuid(rng),
        endpoints=tuple(
            Endpoint(each.name, each.advertised_host, each.advertised_port) for each in listeners
        ),
        log_dirs=tuple(each.directory_id for each in log_dirs if each.online),
        rack=config.rack,
        controller_endpoints=tuple(
            Endpoint(each.name, each.advertised_host, each.advertised_port)
            for each in config.controller_listeners
        ),
    )

"""The channels of a node to the active controller, and the parts that use them.

Three channels with separate connections: heartbeats and registrations, forwarded client requests, and the other
requests of the broker. A client request that takes long delays neither heartbeats nor changes of the ISR.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.broker.forwarding.controller_channel import ControllerChannel
from ottla.broker.forwarding.envelope import EnvelopeServer
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.forwarding.local_controller import LocalController
from ottla.config.broker import BrokerConfig
from ottla.controller.driver import ControllerDriver
from ottla.metadata.publisher import MetadataPublisher
from ottla.node.quorum.addresses import ControllerAddresses
from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings

_RECONNECT_S: Final = 0.02
_RECONNECT_MAX_S: Final = 0.5


class ControllerLink:
    """The connection of one node to the active controller, which may be in the same process."""

    def __init__(
        self,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        controller: ControllerDriver,
        publisher: MetadataPublisher,
        leader_id: Callable[[], int],
        config: BrokerConfig,
        environment: Environment,
        addresses: ControllerAddresses,
    ) -> None:
        self._node_id = node_id
        self._loop = loop
        self._leader_id = leader_id
        self._environment = environment
        self._addresses = addresses
        self.envelopes = EnvelopeServer(lambda: publisher.image.offset)
        self._local = LocalController(loop, controller, self.envelopes.handle)
        self.heartbeats = self._channel("heartbeat")
        self.requests = self._channel("broker")
        self.forwarding = self._channel("forwarding")
        self.forwarder = Forwarder(
            self.forwarding,
            controller,
            lambda: controller.is_active,
            publisher,
            loop,
            config.int("request.timeout.ms") / 1000,
        )

    def _channel(self, purpose: str) -> ControllerChannel:
        settings = PeerSettings(
            client_id=f"{purpose}-{self._node_id}",
            reconnect_backoff_s=_RECONNECT_S,
            reconnect_backoff_max_s=_RECONNECT_MAX_S,
        )
        peers = Peers(settings, self._environment, self)
        self._addresses.follow(peers.set_address)
        return ControllerChannel(self._node_id, self._leader_id, self._local, peers, self._loop)

    def close(self) -> None:
        """Fail all requests and close all connections."""
        for channel in (self.heartbeats, self.requests, self.forwarding):
            channel.close()

    # Callbacks of the connections: the channels retry by themselves

    def on_connected(self, node_id: int) -> None:
        pass

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        pass

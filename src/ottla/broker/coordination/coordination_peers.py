"""The connections of coordinators to other brokers.

A broker handles the requests of a connection one after the other. Markers wait until they are committed, and
verifications must not wait for them: each kind has its own connections. They are opened when they are first needed.

Concurrency: the event loop only.
"""

from __future__ import annotations

from ottla.broker.forwarding.peer_addresses import PeerAddresses
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings


class CoordinationPeers:
    """Connections for markers and for verifications, with the addresses of the image."""

    def __init__(self, node_id: int, listener_name: str, environment: Environment) -> None:
        self.markers = self._open(f"broker-{node_id}-txn-marker-sender", environment)
        self.verifications = self._open(f"broker-{node_id}-txn-verifier", environment)
        self._addresses = PeerAddresses(node_id, listener_name, self.markers, self.verifications)

    def _open(self, client_id: str, environment: Environment) -> Peers:
        return Peers(PeerSettings(client_id=client_id), environment, self)

    def load(self, image: MetadataImage) -> None:
        """Use the addresses of a whole image, at the start."""
        self._addresses.load(image)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._addresses.apply(delta, image)

    def close(self) -> None:
        """Close all connections and fail all requests."""
        self.markers.close()
        self.verifications.close()

    def on_connected(self, node_id: int) -> None:
        """Do nothing: the failure of a connection fails its requests."""

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        """Do nothing: the failure of a connection fails its requests."""

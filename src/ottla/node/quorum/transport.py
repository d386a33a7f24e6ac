"""Requests between the replicas of the quorum, over connections to the controller listeners of other nodes.

Fetches have separate connections, because a fetch may wait and responses are in order. The connection for fetches is
also the source of evidence: if it is lost it is opened again at once. If that is refused, or closed again before a
response, the process of that voter has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from ottla.base.promise import Promise
from ottla.node.quorum.addresses import ControllerAddresses
from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError, Reason
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)

_RECONNECT_S: Final = 0.01
_RECONNECT_MAX_S: Final = 0.2


class PeerTransport:
    """Implements `quorum.runtime.driver.QuorumTransport`. Concurrency: the event loop only."""

    def __init__(
        self,
        node_id: int,
        addresses: ControllerAddresses,
        environment: Environment,
        on_lost: Callable[[int], None],
    ) -> None:
        self._on_lost = on_lost
        self._suspected: set[int] = set()
        self._fetches = Peers(_settings(node_id, "fetch"), environment, self)
        self._others = Peers(_settings(node_id, "quorum"), environment, _Silent())
        self.set_address = addresses.set
        addresses.follow(self._fetches.set_address)
        addresses.follow(self._others.set_address)

    def request(
        self, node_id: int, message: Message, response: type[M], *, timeout_s: float, versions: range | None
    ) -> Promise[M]:
        peers = self._fetches if isinstance(message, FetchRequest | FetchSnapshotRequest) else self._others
        return peers.request(node_id, message, response, timeout_s=timeout_s, versions=versions)

    def close(self) -> None:
        """Close all connections and fail all requests."""
        self._fetches.close()
        self._others.close()

    def on_connected(self, node_id: int) -> None:
        """A connection for fetches is open."""
        self._suspected.discard(node_id)

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        """A connection for fetches was lost or could not be opened."""
        if self._has_ended(node_id, error.reason):
            self._on_lost(node_id)
        elif error.reason is Reason.CLOSED:
            self._suspected.add(node_id)
            self._fetches.connect(node_id)

    def _has_ended(self, node_id: int, reason: Reason) -> bool:
        return reason is Reason.REFUSED or (reason is Reason.CLOSED and node_id in self._suspected)


class _Silent:
    """Ignores the state of connections."""

    def on_connected(self, node_id: int) -> None:
        pass

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        pass


def _settings(node_id: int, purpose: str) -> PeerSettings:
    return PeerSettings(
        client_id=f"{purpose}-{node_id}",
        reconnect_backoff_s=_RECONNECT_S,
        reconnect_backoff_max_s=_RECONNECT_MAX_S,
    )

"""Evidence that brokers have ended, from connections that the active controller keeps to them.

The operating system closes the sockets of a process that ends, at once. A connection that was closed is opened again
immediately; if that is refused or reset, the broker is reported as lost. A broker whose first connection is refused is
reported too: a new controller thereby learns of brokers that ended before it was elected. Attempts that time out, and
unreachable hosts, are no evidence: then the session of the broker decides.

A broker is reported once, and again only after a connection to it was open or after a new `watch`. Attempts continue
with a back-off, so that the next end of the broker is noticed. The evidence can be wrong; fencing is safe, and a broker
that runs is unfenced by its next heartbeat.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError, Reason
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings
from ottla.security.protocol import SecurityProtocol

_BACKOFF_S: Final = 0.01
_BACKOFF_MAX_S: Final = 0.5


class ConnectionWatch:
    """One connection to each watched broker; `broker_lost` is called with evidence."""

    def __init__(
        self,
        environment: Environment,
        tls_environment: Environment,
        node_id: int,
        broker_lost: Callable[[int], None],
    ) -> None:
        settings = PeerSettings(
            client_id=f"controller-{node_id}-watch",
            reconnect_backoff_s=_BACKOFF_S,
            reconnect_backoff_max_s=_BACKOFF_MAX_S,
        )
        self._plain = Peers(settings, environment, self)
        self._tls = Peers(settings, tls_environment, self)
        self._peers: dict[int, Peers] = {}
        self._broker_lost = broker_lost
        self._watched: set[int] = set()
        self._suspected: set[int] = set()
        self._reported: set[int] = set()

    def watch(self, broker_id: int, host: str, port: int, protocol: int) -> None:
        """Keep a connection to a registered broker; again after each registration."""
        self._watched.add(broker_id)
        self._suspected.discard(broker_id)
        self._reported.discard(broker_id)
        peers = self._tls if SecurityProtocol(protocol).uses_tls else self._plain
        earlier = self._peers.get(broker_id, peers)
        self._peers[broker_id] = peers
        if earlier is not peers:
            earlier.remove(broker_id)
        peers.set_address(broker_id, host, port)
        peers.connect(broker_id)

    def unwatch(self, broker_id: int) -> None:
        self._watched.discard(broker_id)
        if (peers := self._peers.pop(broker_id, None)) is not None:
            peers.remove(broker_id)

    def close(self) -> None:
        self._watched.clear()
        self._plain.close()
        self._tls.close()

    # Callbacks of the connections

    def on_connected(self, node_id: int) -> None:
        self._suspected.discard(node_id)
        self._reported.discard(node_id)

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        if node_id not in self._watched:
            return
        self._peers[node_id].connect(node_id)
        refused = error.reason is Reason.REFUSED
        closed_again = error.reason is Reason.CLOSED and node_id in self._suspected
        if error.reason is Reason.CLOSED:
            self._suspected.add(node_id)
        if (refused or closed_again) and node_id not in self._reported:
            self._reported.add(node_id)
            self._broker_lost(node_id)

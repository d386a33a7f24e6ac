"""Connections of one node to the other nodes of its cluster, by node id.

One `Peers` has at most one connection to each node. A node uses several of them for requests that must not wait for
each other, such as Fetch and requests to the controller.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.base.buffers import lazy_buffer
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.peer.connect import Connect
from ottla.peer.connection import Environment, PeerConnection
from ottla.peer.errors import PeerError, Reason
from ottla.peer.exchange import RawResponse
from ottla.peer.settings import PeerSettings
from ottla.peer.transport import SocketTransport, Transport
from ottla.wire.frame_reader import LARGE_FRAME_BYTES
from ottla.wire.frames import EncodedRequest, request_name
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.security.sasl.login import Login
    from ottla.security.tls.stream import TlsStream

R = TypeVar("R", bound=Message)
_RECEIVE_BYTES = 4 * LARGE_FRAME_BYTES


class PeerListener(Protocol):
    """Callbacks with evidence for failure detection."""

    def on_connected(self, node_id: int) -> None:
        """The connection to a node is open and the node has reported its API versions."""
        ...

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        """A connection attempt to a node failed, or its connection was lost (see `error.reason`)."""
        ...


class TlsClient(Protocol):
    """Starts TLS on connections to other nodes."""

    def new_stream(self, host: str) -> TlsStream:
        """The client side of a new connection to `host`."""
        ...


class PeerRequests(Protocol):
    """The part of `Peers` that sends requests, as other parts of a node use it."""

    def request(
        self,
        node_id: int,
        message: Message,
        response: type[R],
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[R]: ...


class Peers:
    """Requests to other nodes. Each connection is opened when it is first needed."""

    def __init__(self, settings: PeerSettings, environment: Environment, listener: PeerListener) -> None:
        self._settings = settings
        self._environment = environment
        self._listener = listener
        self._connections: dict[int, PeerConnection] = {}
        self._closed = False

    def set_address(self, node_id: int, host: str, port: int) -> None:
        """Set the address of a node. A connection to another address of the node is closed."""
        current = self._connections.get(node_id)
        if self._closed or (current is not None and (current.host, current.port) == (host, port)):
            return
        self._connections[node_id] = PeerConnection(
            f"node {node_id}",
            host,
            port,
            self._settings,
            self._environment,
            _NodeListener(node_id, self._listener),
        )
        if current is not None:
            current.close()

    def remove(self, node_id: int) -> None:
        """Forget a node and close its connection."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()

    def connect(self, node_id: int) -> None:
        """Open the connection to a node, if it has an address and no connection."""
        if (connection := self._connections.get(node_id)) is not None:
            connection.connect()

    def is_connected(self, node_id: int) -> bool:
        connection = self._connections.get(node_id)
        return connection is not None and connection.connected

    def request(
        self,
        node_id: int,
        message: Message,
        response: type[R],
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[R]:
        """Send a request in the newest version in `versions` that both nodes serve.

        The promise fails with PeerError.
        """
        connection = self._connections.get(node_id)
        if connection is None:
            return self._no_address(node_id, message)
        return connection.request(message, response, timeout_s=timeout_s, versions=versions)

    def request_raw(
        self,
        node_id: int,
        message: Message | EncodedRequest,
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[RawResponse]:
        """As `request`, with a response that is not decoded and not copied if it is large."""
        connection = self._connections.get(node_id)
        if connection is None:
            return self._no_address(node_id, message)
        return connection.request_raw(message, timeout_s=timeout_s, versions=versions)

    def close(self) -> None:
        """Close all connections and fail all requests."""
        self._closed = True
        for node_id in list(self._connections):
            self.remove(node_id)

    def _no_address(self, node_id: int, message: Message | EncodedRequest) -> Promise[Any]:
        reason = Reason.SHUTDOWN if self._closed else Reason.UNKNOWN_NODE
        why = "this node is shutting down" if self._closed else f"node {node_id} has no known address"
        failed: Promise[Any] = Promise()
        failed.fail(PeerError(reason, f"{request_name(message)}: {why}"))
        return failed


class _NodeListener:
    """Adds the node id to the callbacks of a connection."""

    __slots__ = ("_listener", "_node_id")

    def __init__(self, node_id: int, listener: PeerListener) -> None:
        self._node_id = node_id
        self._listener = listener

    def on_connected(self) -> None:
        self._listener.on_connected(self._node_id)

    def on_disconnected(self, error: PeerError) -> None:
        self._listener.on_disconnected(self._node_id, error)


def peer_environment(
    loop: asyncio.AbstractEventLoop,
    connect: Connect,
    rng: Random,
    tls: TlsClient | None = None,
    login: Login | None = None,
) -> Environment:
    """The ports of a node's connections, on its event loop. All `Peers` of one node may share it.

    With `tls`, every connection uses it; with `login`, every connection is authenticated by SASL.
    """

    def open_transport(sock: socket.socket, host: str) -> Transport:
        plain = SocketTransport(loop, sock)
        if tls is None:
            return plain
        from ottla.peer.tls_transport import TlsTransport

        return TlsTransport(loop, plain, tls.new_stream(host.strip("[]")))

    return Environment(loop, connect, open_transport, rng, lazy_buffer(_RECEIVE_BYTES), login)

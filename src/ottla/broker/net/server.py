"""Listening sockets: accepts connections, sets them up and counts them. IPv4, IPv6, any number of listeners.

An address "" means every interface, as in Kafka. Port 0 lets the system choose; `bind` returns the listeners with the
ports that were bound.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.base.errors import LocalError, violated
from ottla.broker.net.connection import Connection
from ottla.broker.net.edge import Edge
from ottla.broker.net.listeners import Listener

if TYPE_CHECKING:
    from ottla.broker.quotas import Quotas
    from ottla.security.quotas.connections import ConnectionRates

_ACCEPT_BURST = 64
_BACKLOG = 1024
_CHECK_SECONDS = 1.0
# An unbounded send buffer accepts a whole large response before the loop serves another connection; consumers then wait
# for one another, and on one machine sleep and wake for every packet. Measured with 1 MB fetches: 1.5 times the
# throughput of an unbounded buffer.
_SEND_BUFFER_BYTES = 512 * 1024
_ACCEPT_PAUSE_SECONDS = 0.2
# Connections above the rate of their address that are not closed yet.
_REFUSED_MAX = 1000
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Server:
    """The listening side of one broker."""

    def __init__(
        self, edge: Edge, listen: Callable[[Listener], socket.socket], quotas: Quotas | None = None
    ) -> None:
        """`quotas` limits the rate of new connections."""
        self._edge = edge
        self._quotas = quotas
        self._refused = 0
        self._listen = listen
        self._sockets: list[tuple[socket.socket, Listener]] = []
        self._drained: Callable[[], None] | None = None
        self._stopped = False

    def bind(self, listeners: Sequence[Listener]) -> list[Listener]:
        """Open the socket of each listener. Clients can connect but are not served before `serve`."""
        for wanted in listeners:
            sock = self._listen(wanted)
            port = sock.getsockname()[1]
            advertised_port = wanted.advertised_port or port
            self._sockets.append((sock, wanted._replace(port=port, advertised_port=advertised_port)))
        return [listener for _, listener in self._sockets]

    def serve(self) -> None:
        for sock, listener in self._sockets:
            self._edge.loop.add_reader(sock, self._accept, sock, listener)
        self._edge.loop.call_later(_CHECK_SECONDS, self._check)

    def stop(self, drained: Callable[[], None]) -> None:
        """Accept no connection and complete pending requests; call `drained` when all connections are closed."""
        self._stopped = True
        self._drained = drained
        for sock, _ in self._sockets:
            self._edge.loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        for connection in list(self._edge.connections):
            connection.drain()
        self._check_drained()

    def abort(self) -> None:
        """Close every connection, also those with pending requests."""
        for connection in list(self._edge.connections):
            connection.close()

    def _check(self) -> None:
        self._edge.check()
        if self._stopped:
            self._check_drained()
        self._edge.loop.call_later(0.02 if self._stopped else _CHECK_SECONDS, self._check)

    def _check_drained(self) -> None:
        if self._drained is not None and not self._edge.connections:
            drained, self._drained = self._drained, None
            drained()

    def _accept(self, sock: socket.socket, listener: Listener) -> None:
        for _ in range(_ACCEPT_BURST):
            try:
                accepted, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                # The connection stays in the backlog and the listener readable: try again later.
                self._edge.log.warning("cannot accept connections; trying again", reason=error.strerror)
                self._edge.loop.remove_reader(sock)
                self._edge.loop.call_later(_ACCEPT_PAUSE_SECONDS, self._resume_accept, sock, listener)
                return
            rates = None if self._quotas is None else self._quotas.connections
            if rates is None:
                self._admit(accepted, listener, address[0], address[1])
            elif not self._admit_at_rate(rates, accepted, sock, listener, address):
                return

    def _admit_at_rate(
        self,
        rates: ConnectionRates,
        accepted: socket.socket,
        sock: socket.socket,
        listener: Listener,
        address: tuple[str, int],
    ) -> bool:
        """Admit a connection within the limits of rates; False if the listener accepts no other one for some time."""
        ip, port = address[:2]
        refuse_ms, pause_ms = rates.accept(
            listener.name, ip.removeprefix("::ffff:"), int(self._edge.loop.time() * 1000)
        )
        if refuse_ms:
            self._refuse(accepted, refuse_ms / 1000)
            return True
        self._admit(accepted, listener, ip, port)
        if pause_ms:
            self._edge.loop.remove_reader(sock)
            self._edge.loop.call_later(pause_ms / 1000, self._resume_accept, sock, listener)
        return not pause_ms

    def _refuse(self, accepted: socket.socket, seconds: float) -> None:
        """Close a connection after some time: its client would connect again at once."""
        if self._refused >= _REFUSED_MAX:
            accepted.close()
            return

        def close() -> None:
            self._refused -= 1
            accepted.close()

        self._refused += 1
        self._edge.loop.call_later(seconds, close)

    def _resume_accept(self, sock: socket.socket, listener: Listener) -> None:
        if not self._stopped:
            self._edge.loop.add_reader(sock, self._accept, sock, listener)

    def _admit(self, accepted: socket.socket, listener: Listener, ip: str, port: int) -> None:
        if not self._edge.counts.admit(ip, self._edge.limits):
            self._edge.log.info("connection refused", peer=f"{ip}:{port}", reason="too many connections")
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._edge.connections[self._open(accepted, listener, ip, port)] = None

    def _open(self, accepted: socket.socket, listener: Listener, ip: str, port: int) -> Connection:
        edge = self._edge
        if not listener.protocol.uses_tls:
            return Connection(edge, accepted, listener, ip, port)
        from ottla.broker.net.tls_connection import TlsConnection

        tls = edge.tls if edge.tls is not None else violated("a listener with TLS has a configuration")
        return TlsConnection(edge, accepted, listener, ip, port, tls)


def listening_socket(listener: Listener) -> socket.socket:
    """Return a socket that listens on the address of `listener`; LocalError if that is impossible."""
    host = listener.host.strip("[]")
    try:
        found = socket.getaddrinfo(
            host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # Every interface: the IPv6 socket accepts IPv4 as well, if this machine has IPv6.
        family, kind, protocol, _, address = max(
            found, key=lambda one: not host and one[0] == socket.AF_INET6
        )
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise LocalError(f"listener {listener.name}: cannot use {host!r}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise LocalError(
            f"listener {listener.name}: cannot listen on {host}:{listener.port}: {error}"
        ) from error
    return sock

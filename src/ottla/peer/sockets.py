"""Outbound TCP connections of the operating system: the real implementation of `ottla.peer.connect`.

Host names are resolved in the event loop's default executor, because `getaddrinfo` blocks. All addresses of a name
are tried one after another; the error of the last one is reported.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

from ottla.peer.connect import Cancel, OnConnect

_IN_PROGRESS = frozenset({0, errno.EINPROGRESS, errno.EINTR})


class SocketConnector:
    """Opens TCP connections on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, host: str, port: int, on_done: OnConnect, /) -> Cancel:
        return _Attempt(self._loop, host.strip("[]"), port, on_done).cancel


class _Attempt:
    """One connection attempt: resolve the name, then try its addresses in turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int, on_done: OnConnect) -> None:
        self._loop = loop
        self._on_done = on_done
        self._addresses: list[Any] = []
        self._sock: socket.socket | None = None
        self._complete = False
        try:
            self._addresses = _resolve(host, port, socket.AI_NUMERICHOST)
        except OSError:
            looked_up = loop.run_in_executor(None, _resolve, host, port, 0)
            looked_up.add_done_callback(self._resolved)
        else:
            loop.call_soon(self._try_next, OSError(errno.EADDRNOTAVAIL, f"no address for {host}"))

    def cancel(self) -> None:
        self._complete = True
        self._close()

    def _resolved(self, looked_up: asyncio.Future[list[Any]]) -> None:
        error = None if looked_up.cancelled() else looked_up.exception()
        if self._complete or looked_up.cancelled():
            return
        if error is None:
            self._addresses = looked_up.result()
            self._try_next(OSError(errno.EADDRNOTAVAIL, "the name has no address"))
        else:
            self._finish(None, error if isinstance(error, OSError) else OSError(str(error)))

    def _try_next(self, last_error: OSError) -> None:
        """Start the attempt with the next address; report `last_error` if none is left."""
        while not self._complete:
            if not self._addresses:
                self._finish(None, last_error)
                return
            family, kind, protocol, _, address = self._addresses.pop(0)
            try:
                sock = self._sock = socket.socket(family, kind, protocol)
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                code = sock.connect_ex(address)
            except OSError as error:
                self._close()
                last_error = error
                continue
            if code in _IN_PROGRESS:
                self._loop.add_writer(sock, self._connected, sock)
                return
            self._close()
            last_error = _os_error(code)

    def _connected(self, sock: socket.socket) -> None:
        self._loop.remove_writer(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code and _is_self_connected(sock):
            code = errno.ECONNREFUSED
        if code:
            self._close()
            self._try_next(_os_error(code))
        else:
            self._sock = None
            self._finish(sock, None)

    def _finish(self, sock: socket.socket | None, error: OSError | None) -> None:
        self._complete = True
        self._on_done(sock, error)

    def _close(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            if sock.fileno() >= 0:
                self._loop.remove_writer(sock)
            sock.close()


def _resolve(host: str, port: int, flags: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


def _os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _is_self_connected(sock: socket.socket) -> bool:
    """Whether the socket is connected to itself.

    TCP allows that on one machine, if the local port chosen by the system is the port without a listener.
    """
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:
        return False

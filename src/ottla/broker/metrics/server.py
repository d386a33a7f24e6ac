"""The HTTP endpoint of metrics: GET /metrics, on the loopback interface.

The text of a scrape is written in slices of half a millisecond on the event loop, and only as fast as the client
reads it; in the pauses between slices the loop serves other connections. Before the first slice the values are
collected that need requests to other brokers or reads of the disk (`prepare`).

The request is hostile input: its head is limited, only loopback names are accepted as Host (a page in a browser must
not read the metrics under a name of its own), and there is a limit of connections and of their time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from ottla.base.errors import LocalError
from ottla.broker.metrics.text import CONTENT_TYPE

LOOPBACK: Final = "127.0.0.1"
_HEAD_BYTES_MAX: Final = 8 * 1024
_SLICE_S: Final = 0.0005
_PAUSE_S: Final = 0.001
"""A request needs several passes of the loop, and each waits for at most one slice; most wait for none."""
_CONNECTIONS_MAX: Final = 8
_TIMEOUT_S: Final = 30.0
_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


class MetricsServer:
    """The endpoint of one broker. `write` creates the text of a scrape piece by piece."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        prepare: Callable[[], Awaitable[None]],
        write: Callable[[], Iterator[str]],
    ) -> None:
        self.loop = loop
        self.prepare = prepare
        self.write = write
        self.scrapes: set[Scrape] = set()
        self._server: asyncio.AbstractServer | None = None

    async def start(self, port: int) -> int:
        """Listen; returns the port. Raises LocalError if that is impossible."""
        try:
            server = await self.loop.create_server(lambda: Scrape(self), LOOPBACK, port)
        except OSError as error:
            raise LocalError(f"metrics: cannot listen on {LOOPBACK}:{port}: {error}") from error
        self._server = server
        return int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for scrape in list(self.scrapes):
            scrape.abort()


class Scrape(asyncio.Protocol):
    """One connection: one request, one response, then it is closed."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._pieces: Iterator[str] | None = None
        self._task: asyncio.Task[None] | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._server.scrapes.add(self)
        self._timer = self._server.loop.call_later(_TIMEOUT_S, self.abort)
        if len(self._server.scrapes) > _CONNECTIONS_MAX:
            self._respond("503 Service Unavailable", "too many scrapes at once\n")

    def data_received(self, data: bytes) -> None:
        if self._task is not None or self._transport is None or self._transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._request(bytes(self._head))
        elif len(self._head) > _HEAD_BYTES_MAX:
            self._respond("431 Request Header Fields Too Large", "the request is too large\n")

    def _request(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        host = next((line[5:].strip() for line in lines[1:] if line.lower().startswith("host:")), "")
        if host.rpartition(":")[0].lower() not in _HOSTS and host.lower() not in _HOSTS:
            self._respond("403 Forbidden", "the host of the request is not a loopback address\n")
        elif len(words) != 3 or words[0] != "GET":
            self._respond("405 Method Not Allowed", "only GET is served\n")
        elif words[1].partition("?")[0] != "/metrics":
            self._respond("404 Not Found", "metrics are at /metrics\n")
        else:
            self._task = self._server.loop.create_task(self._scrape())

    def _respond(self, status: str, body: str) -> None:
        if self._transport is not None:
            self._transport.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
            )
            self._transport.close()

    async def _scrape(self) -> None:
        await self._server.prepare()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nConnection: close\r\n\r\n".encode()
            )
            self._pieces = self._server.write()
            self._write_slice()

    def _write_slice(self) -> None:
        """Write for a moment, then let the loop serve others."""
        transport, pieces, time = self._transport, self._pieces, self._server.loop.time
        if transport is None or pieces is None or transport.is_closing() or self._paused:
            return
        written: list[str] = []
        end = time() + _SLICE_S
        for piece in pieces:
            written.append(piece)
            if time() >= end:
                transport.write("".join(written).encode())
                self._server.loop.call_later(_PAUSE_S, self._write_slice)
                return
        transport.write("".join(written).encode())
        transport.close()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._server.loop.call_soon(self._write_slice)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.scrapes.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._transport = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

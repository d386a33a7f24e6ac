"""A client's process and its connections: ask, wait, give up, ask again.

`Process` is one life of a client: a loop of its own, killed or paused as a whole. `Wire` is one connection at a
time to the broker; an answer that does not come in time, or a connection that breaks, raises `NoResponse`: nobody
knows then whether the request was, is being, or will be carried out.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.base.rng import Random
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.network import Network, Socket
from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame, take_frame
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)


class NoResponse(Exception):
    """No answer came; the request may have been carried out all the same, or still be."""


class Process:
    """One life of a client."""

    def __init__(self, kernel: Kernel, network: Network, name: str) -> None:
        self.kernel = kernel
        self.network = network
        self.name = name
        self.loop = SimLoop(kernel, name)
        self.rng: Random = kernel.stream(name)
        self.task: asyncio.Task[Any] | None = None
        self._connections: list[Connection] = []

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        def begin() -> None:
            self.task = self.loop.create_task(work())
            self.task.add_done_callback(self._ended)

        self.loop.call_soon(begin)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = task.exception()
        if isinstance(error, Exception):
            detail = "".join(traceback.format_exception(error))
            self.kernel.violated("clients understand what they are told", f"{self.name}: {detail}")

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()

    def kill(self) -> None:
        self.loop.kill()
        for connection in self._connections:
            connection.abandon()

    def connection(self, port: int, timeout_ms: int = 3000) -> Connection:
        made = Connection(self, port, timeout_ms)
        self._connections.append(made)
        return made

    async def sleep(self, milliseconds: float) -> None:
        future = self.loop.create_future()
        self.loop.call_later(milliseconds / 1000, _wake, future)
        await future

    async def backoff(self) -> None:
        await self.sleep(self.rng.uniform(20, 200))


class Connection:
    """Requests one after another over one connection, opened when needed."""

    def __init__(self, process: Process, port: int, timeout_ms: int) -> None:
        self._process = process
        self._port = port
        self._timeout_ms = timeout_ms
        self._socket: Socket | None = None
        self._received = bytearray()
        self._correlation = 0
        self._waiting: asyncio.Future[bytes] | None = None
        self.sent_us = 0
        """When the last request was sent."""

    async def request(
        self, request: Message, version: int, response: type[R], timeout_ms: int | None = None
    ) -> R:
        """Send a request and wait for its answer; raises NoResponse."""
        process = self._process
        self._correlation += 1
        correlation = self._correlation
        api_key = request.SPEC.api_key
        frame = request_frame(request, version, correlation, process.name)
        try:
            socket = self._connected()
            self.sent_us = process.kernel.now_us
            process.kernel.note(process.name, f"asks {type(request).__name__} v{version}")
            waiting = self._waiting = process.loop.create_future()
            socket.send(frame)
        except OSError as error:
            self.abandon()
            await process.backoff()
            raise NoResponse("no connection") from error
        limit = (timeout_ms or self._timeout_ms) / 1000
        timer = process.loop.call_later(limit, _expire, waiting)
        try:
            data = await waiting
        except NoResponse:
            self.abandon()
            process.kernel.count("requests without answer")
            process.kernel.note(process.name, f"gives up on {type(request).__name__}")
            raise
        finally:
            timer.cancel()
            self._waiting = None
        got, body = parse_response_header(data, api_key, version)
        if got != correlation:
            process.kernel.violated("answers come in order", f"{process.name}: {got}, not {correlation}")
        return codec.decode(response, data, version, start=body)

    def abandon(self) -> None:
        """Close the connection. What was sent may still arrive."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received.clear()

    def _connected(self) -> Socket:
        if self._socket is None:
            self._socket = self._process.network.connect(self._process.name, self._port)
            socket = self._socket
            self._socket.on_change = lambda: self._changed(socket)
        return self._socket

    def _changed(self, socket: Socket) -> None:
        """Bytes or the end of the connection arrived: look at them when the process gets to it."""
        self._process.loop.call_soon(self._read, socket)

    def _read(self, socket: Socket) -> None:
        if socket is not self._socket:
            return
        self._received += socket.own()
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            frame = take_frame(self._received)
            if frame is not None:
                waiting.set_result(frame)
                return
        if socket.broken and waiting is not None and not waiting.done():
            waiting.set_exception(NoResponse("connection broken"))
        elif socket.broken and (waiting is None or waiting.done()):
            self.abandon()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _expire(waiting: asyncio.Future[bytes]) -> None:
    if not waiting.done():
        waiting.set_exception(NoResponse("timed out"))

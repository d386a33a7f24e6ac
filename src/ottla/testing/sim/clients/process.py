"""Process of a simulated client, and its connections: send a request, wait, time out.

`Process` is one incarnation of a client on its host. It is killed or paused as a whole. `Connection` has at most one
TCP connection to a broker at a time. If no response arrives in time, or the connection breaks, a request raises
`NoResponse`: it is then unknown whether the broker has executed the request, is executing it, or will execute it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from ottla.base.rng import Random
from ottla.peer.connect import Cancel
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.network import Network
from ottla.testing.sim.kernel.sockets import Socket
from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame, take_frame
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)


class NoResponse(Exception):
    """No response has arrived; the request may have been executed, or may still be."""


class _Refused(NoResponse):
    """The connection could not be opened."""


class Process:
    """One incarnation of a client."""

    def __init__(self, network: Network, host: Host, name: str) -> None:
        self.kernel: Kernel = network.kernel
        self.network = network
        self.host = host
        self.name = name
        self.loop = host.start_process(name)
        self.rng: Random = host.stream(name)
        self.task: asyncio.Task[Any] | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        def begin() -> None:
            self.task = self.loop.create_task(work())
            self.task.add_done_callback(self._ended)

        self.loop.call_soon(begin)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = task.exception()
        if isinstance(error, Exception):
            detail = "".join(traceback.format_exception(error))
            self.kernel.violated("clients can process every response", f"{self.name}: {detail}")
        self.kill()

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()

    def kill(self) -> None:
        """End the process; the operating system closes its connections."""
        self.host.kill_process(self.loop)

    def connection(self, address: tuple[str, int], timeout_ms: int = 3000) -> Connection:
        return Connection(self, address, timeout_ms)

    async def sleep(self, milliseconds: float) -> None:
        future = self.loop.create_future()
        self.loop.call_later(milliseconds / 1000, _wake, future)
        await future

    async def backoff(self) -> None:
        await self.sleep(self.rng.uniform(20, 200))


class Connection:
    """Sends requests over a TCP connection, which it opens when needed; several may be in flight.

    An error or a timeout closes the connection: no request that is in flight gets a response.
    """

    def __init__(self, process: Process, address: tuple[str, int], timeout_ms: int) -> None:
        self._process = process
        self._address = address
        self._timeout_ms = timeout_ms
        self._socket: Socket | None = None
        self._cancel: Cancel | None = None
        self._unsent = b""
        self._received = bytearray()
        self._correlation = 0
        self._in_flight: deque[asyncio.Future[bytes]] = deque()

    async def request(
        self,
        request: Message,
        version: int,
        response: type[R],
        timeout_ms: int | None = None,
        *,
        backs_off: bool = True,
    ) -> R:
        """Send a request and wait for its response; raises NoResponse, after a pause if the connection was refused.

        `backs_off` is false for a client that sends other requests meanwhile: it must know at once.
        """
        process = self._process
        self._correlation += 1
        correlation = self._correlation
        api_key = request.SPEC.api_key
        frame = request_frame(request, version, correlation, process.name)
        process.kernel.note(process.name, f"sends {type(request).__name__} v{version}")
        waiting: asyncio.Future[bytes] = process.loop.create_future()
        self._in_flight.append(waiting)
        limit = (timeout_ms or self._timeout_ms) / 1000
        timer = process.loop.call_later(limit, self._expire, waiting)
        self._send(frame)
        try:
            data = await waiting
        except NoResponse as error:
            process.kernel.count("requests without response")
            process.kernel.note(process.name, f"{type(request).__name__}: {error}")
            if backs_off and isinstance(error, _Refused):
                await process.backoff()
            raise
        finally:
            timer.cancel()
        got, body = parse_response_header(data, api_key, version)
        if got != correlation:
            process.kernel.violated(
                "responses are sent in order", f"{process.name}: {got} instead of {correlation}"
            )
        return codec.decode(response, data, version, start=body)

    def _fail(self, error: NoResponse) -> None:
        """Close the connection. What was sent may still arrive."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._unsent = b""
        self._received.clear()
        failed, self._in_flight = self._in_flight, deque()
        for waiting in failed:
            waiting.set_exception(error)

    def _expire(self, waiting: asyncio.Future[bytes]) -> None:
        if not waiting.done():
            self._fail(NoResponse("timed out"))

    def _send(self, frame: bytes) -> None:
        process = self._process
        if self._socket is None:
            self._unsent += frame
            if self._cancel is None:
                host, port = self._address
                self._cancel = process.network.connect(
                    process.host, process.loop, host, port, self._connected
                )
            return
        try:
            self._socket.send(frame)
        except OSError:
            self._fail(NoResponse("the connection is broken"))

    def _connected(self, sock: object, error: OSError | None) -> None:
        self._cancel = None
        if error is not None:
            self._fail(_Refused("the connection is refused"))
            return
        socket = self._socket = cast(Socket, sock)
        socket.on_change = lambda: self._changed(socket)
        unsent, self._unsent = self._unsent, b""
        self._send(unsent)

    def _changed(self, socket: Socket) -> None:
        """Data or the end of the connection has arrived: read it in an event of the process."""
        self._process.loop.call_soon(self._read, socket)

    def _read(self, socket: Socket) -> None:
        if socket is not self._socket:
            return
        self._received += socket.take()
        while self._in_flight and (frame := take_frame(self._received)) is not None:
            self._in_flight.popleft().set_result(frame)
        if socket.broken:
            self._fail(NoResponse("the connection is broken"))


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

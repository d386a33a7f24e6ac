"""Connections between simulated processes: bytes that come late, in pieces, or not at all.

A connection is two pipes. In each, bytes arrive in order, after a delay of their own; a pipe can be stalled for a
while (nothing arrives, later everything does) and a connection can be cut: what is on its way is lost and both ends
see a reset, as after a middle box forgot it. Closing an end is orderly: what was sent before still arrives.
So a request that its client gave up may be carried out much later, or twice if the client asked again.
"""

from __future__ import annotations

import errno
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from ottla.base.rng import Random
from ottla.broker.net.listeners import Listener
from ottla.peer.connect import Cancel, Connect, OnConnect
from ottla.testing.sim.kernel.events import US_PER_MS, US_PER_SECOND, Kernel
from ottla.testing.sim.kernel.loop import SimLoop

_BUFFER_BYTES: Final = 1 << 20


class Weather:
    """How the network is: set by whoever makes the faults."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.delay_ms_max = 2.0
        self.late_chance = 0.0
        self.late_ms_max = 0.0
        self.cut_chance = 0.0

    def delay_us(self) -> int:
        delay_ms = self.rng.uniform(0.1, self.delay_ms_max)
        if self.late_chance and self.rng.random() < self.late_chance:
            delay_ms += self.rng.uniform(0, self.late_ms_max)
        return int(delay_ms * US_PER_MS)

    def cuts(self) -> bool:
        return bool(self.cut_chance) and self.rng.random() < self.cut_chance

    def end_faults(self) -> None:
        self.late_chance = self.cut_chance = 0.0


class Socket:
    """One end of a connection, with the face of a non-blocking socket."""

    def __init__(self, network: Network, name: str, host: str) -> None:
        self._network = network
        self.name = name
        self.host = host
        self.peer: Socket
        self.on_change: Callable[[], None] | None = None
        """For an end that is not watched by a loop's selector."""
        self._received = bytearray()
        self._loop: SimLoop | None = None
        self._last_arrival_us = 0
        self._ended = False  # the other side has closed
        self._reset = False
        self._closed = False
        self._in_flight = 0

    # What `broker.net.connection` and `broker.net.outbox` use

    def recv_into(self, buffer: memoryview) -> int:
        if self._reset or self._closed:
            raise OSError(errno.ECONNRESET, "connection reset")
        if not self._received:
            if self._ended:
                return 0
            raise BlockingIOError
        size = min(len(buffer), len(self._received))
        buffer[:size] = self._received[:size]
        del self._received[:size]
        if self.peer._loop is not None:
            self.peer._loop.notify(self.peer)
        return size

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        if self._reset or self._closed:
            raise OSError(errno.EPIPE, "connection reset")
        if not self.writable():
            raise BlockingIOError
        size = min(len(data), _BUFFER_BYTES)
        self._network.carry(self, bytes(data[:size]))
        return size

    def sendmsg(self, buffers: Sequence[bytes | memoryview], ancillary: object = (), flags: int = 0) -> int:
        return self.send(b"".join(buffers), flags)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._network.closed(self)

    def setblocking(self, flag: bool) -> None:
        """Simulated sockets never block."""

    def setsockopt(self, *option: object) -> None:
        """Simulated sockets have no options."""

    # What the loop asks

    def readable(self) -> bool:
        return bool(self._received) or self._ended or self._reset

    def writable(self) -> bool:
        return self._reset or self.peer._in_flight + len(self.peer._received) < _BUFFER_BYTES

    def watch(self, loop: SimLoop) -> None:
        self._loop = loop

    # What the network does to it

    def arrived(self, data: bytes) -> None:
        self._in_flight -= len(data)
        if self._reset or self._closed:
            return
        self._received += data
        self._changed()

    def own(self) -> bytes:
        """Everything that has arrived, for an end without a loop's selector."""
        data = bytes(self._received)
        self._received.clear()
        if self.peer._loop is not None:
            self.peer._loop.notify(self.peer)
        return data

    @property
    def broken(self) -> bool:
        return self._reset or self._ended

    def end(self) -> None:
        self._ended = True
        self._changed()

    def reset(self) -> None:
        if not self._reset:
            self._reset = True
            self._received.clear()
            self._changed()

    def _changed(self) -> None:
        if self._loop is not None:
            self._loop.notify(self)
        elif self.on_change is not None:
            self.on_change()


class ListeningSocket:
    """Where a node accepts connections."""

    def __init__(self, network: Network, listener: Listener) -> None:
        self._network = network
        self._port = listener.port
        self._backlog: deque[Socket] = deque()
        self._loop: SimLoop | None = None

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        if not self._backlog:
            raise BlockingIOError
        end = self._backlog.popleft()
        return end, ("127.0.0.1", 1024)

    def connected(self, end: Socket) -> None:
        self._backlog.append(end)
        if self._loop is not None:
            self._loop.notify(self)

    def close(self) -> None:
        self._network.unlisten(self._port, self)

    def readable(self) -> bool:
        return bool(self._backlog)

    def writable(self) -> bool:
        return False

    def watch(self, loop: SimLoop) -> None:
        self._loop = loop


class Network:
    """All connections. `name` of a client end is the client; stalls and cuts are told by it."""

    name = "network"
    alive = True
    paused_until_us = 0

    def __init__(self, kernel: Kernel, weather: Weather) -> None:
        self.kernel = kernel
        self.weather = weather
        self._listeners: dict[int, ListeningSocket] = {}
        self._open: dict[Socket, None] = {}  # client ends
        self._stalled_until_us: dict[tuple[str, bool], int] = {}

    def listen(self, listener: Listener) -> ListeningSocket:
        made = self._listeners[listener.port] = ListeningSocket(self, listener)
        return made

    def unlisten(self, port: int, listening: ListeningSocket) -> None:
        if self._listeners.get(port) is listening:
            del self._listeners[port]

    def connect(self, client: str, port: int) -> Socket:
        """The client's end of a new connection; ConnectionRefusedError if nobody listens."""
        listening = self._listeners.get(port)
        if listening is None:
            raise ConnectionRefusedError
        ours, theirs = Socket(self, client, client), Socket(self, client, "node")
        ours.peer, theirs.peer = theirs, ours
        self._open[ours] = None
        self.kernel.schedule(
            self.kernel.now_us + self.weather.delay_us(), self, lambda: listening.connected(theirs)
        )
        return ours

    def connector(self, host: str, loop: SimLoop) -> Connect:
        """The `ottla.peer.connect` port of a process on `host`."""

        def connect(_: str, port: int, on_done: OnConnect) -> Cancel:
            def open_connection() -> None:
                try:
                    made = self.connect(host, port)
                except ConnectionRefusedError as error:
                    on_done(None, error)
                else:
                    on_done(cast(Any, made), None)

            delay_us = self.weather.delay_us()
            return loop.call_later(delay_us / US_PER_SECOND, open_connection).cancel

        return connect

    def node_died(self) -> None:
        """Nobody listens any more; every connection is reset after a moment."""
        self._listeners.clear()
        for end in list(self._open):
            self._reset(end)

    def stall(self, client: str, milliseconds: float, *, to_node: bool, from_node: bool) -> None:
        """Nothing between a client and the node arrives for a while, in one direction or both."""
        until_us = self.kernel.now_us + int(milliseconds * US_PER_MS)
        for direction, wanted in ((True, to_node), (False, from_node)):
            if wanted:
                key = (client, direction)
                self._stalled_until_us[key] = max(self._stalled_until_us.get(key, 0), until_us)

    def end_faults(self) -> None:
        """No more faults: what is stalled moves on."""
        self.weather.end_faults()
        self._stalled_until_us.clear()

    def cut(self, client: str) -> None:
        for end in [end for end in self._open if end.name == client]:
            self._reset(end)

    def carry(self, sender: Socket, data: bytes) -> None:
        kernel, receiver = self.kernel, sender.peer
        if self.weather.cuts():
            kernel.count("connections cut")
            self._reset(sender if sender in self._open else receiver)
            return
        to_node = receiver.host == "node"
        at_us = max(
            receiver._last_arrival_us,
            kernel.now_us + self.weather.delay_us(),
            self._stalled_until_us.get((sender.name, to_node), 0),
        )
        receiver._last_arrival_us = at_us
        receiver._in_flight += len(data)
        kernel.note(
            sender.name, f"{'->' if to_node else '<-'} {len(data)} bytes, crc {zlib.crc32(data[8:]):08x}"
        )
        kernel.schedule(at_us, self, lambda: receiver.arrived(data))

    def closed(self, end: Socket) -> None:
        """An end was closed: the other one reads the end of the stream behind what was sent."""
        self._open.pop(end, None)
        other = end.peer
        at_us = max(other._last_arrival_us, self.kernel.now_us + self.weather.delay_us())
        self.kernel.schedule(at_us, self, other.end)

    def _reset(self, end: Socket) -> None:
        self._open.pop(end, None)
        end.peer.reset()
        self.kernel.schedule(self.kernel.now_us + self.weather.delay_us(), self, end.reset)

"""Simulated TCP sockets: the subset of non-blocking sockets that nodes and simulated clients use.

A connection has two ends. Each end belongs to a process. Closing an end is orderly, as in TCP: what was sent before
still arrives, then the other end reads the end of the stream. A reset discards what was received and not read yet.
Data that arrives for a closed end causes a reset. So a request of a client that has timed out may be
executed much later, or twice if the client has sent it again.
"""

from __future__ import annotations

import errno
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.links import Link
from ottla.testing.sim.kernel.loop import SimLoop

if TYPE_CHECKING:
    from ottla.testing.sim.kernel.network import Network

_BUFFER_BYTES: Final = 1 << 20


class Socket:
    """One end of a connection."""

    peer: Socket

    def __init__(self, network: Network, host: Host, process: SimLoop, link: Link) -> None:
        self._kernel = network.kernel
        self._network = network
        self.host = host
        self.process = process
        self.link = link
        """To the host of the other end."""
        self.last_arrival_us = 0
        self.on_change: Callable[[], None] | None = None
        """Called when data or the end of the stream arrives, for an end that no loop watches."""
        self._received = bytearray()
        self._loop: SimLoop | None = None
        self._ended = False  # the other end was closed
        self._reset = False
        self._closed = False
        self._in_flight = 0
        self._blocked = False  # the process waits until it can write

    # The interface of socket.socket

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
        self._open_window()
        return size

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        if self._reset or self._closed:
            raise OSError(errno.EPIPE, "connection reset")
        if not self.writable():
            raise BlockingIOError
        sent = bytes(data[:_BUFFER_BYTES])
        if self.link.resets():
            self._kernel.count("connections reset")
            self._network.reset_connection(self)
            return len(sent)
        receiver = self.peer
        receiver._in_flight += len(sent)
        crc = zlib.crc32(sent[8:])
        self._kernel.note(self.process.name, f"-> {receiver.host.name} {len(sent)} bytes, crc {crc:08x}")
        self.link.transmit(receiver, len(sent), lambda: receiver.arrived(sent))
        return len(sent)

    def sendmsg(self, buffers: Sequence[bytes | memoryview], ancillary: object = (), flags: int = 0) -> int:
        return self.send(b"".join(buffers), flags)

    def close(self) -> None:
        """Close this end. The connection is reset if data has arrived that was not read, as Linux does."""
        if self._closed:
            return
        self._closed = True
        self.host.closed(self)
        if not self._reset:
            self.link.transmit(self.peer, 0, self.peer.reset if self._received else self.peer.end)

    def setblocking(self, flag: bool) -> None:
        """Do nothing: simulated sockets never block."""

    def setsockopt(self, *option: object) -> None:
        """Do nothing: simulated sockets have no options."""

    def take(self) -> bytes:
        """Read everything that has arrived, for an end that no loop watches."""
        data = bytes(self._received)
        self._received.clear()
        self._open_window()
        return data

    @property
    def broken(self) -> bool:
        return self._reset or self._ended

    # The interface that a loop polls

    def readable(self) -> bool:
        return bool(self._received) or self._ended or self._reset

    def writable(self) -> bool:
        free = self._reset or self.peer._in_flight + len(self.peer._received) < _BUFFER_BYTES
        self._blocked = not free
        return free

    def watch(self, loop: SimLoop) -> None:
        self._loop = loop

    # What arrives from the network

    def arrived(self, data: bytes) -> None:
        self._in_flight -= len(data)
        if self._closed:
            self.link.transmit(self.peer, 0, self.peer.reset)
        elif not self._reset:
            self._received += data
            self._changed()

    def end(self) -> None:
        """The other end was closed."""
        self._ended = True
        self._changed()

    def reset(self) -> None:
        if not self._reset:
            self._reset = True
            self._received.clear()
            self._changed()

    # What the host does

    def vanish(self) -> None:
        """The host has lost power: nothing is sent to the other end."""
        self._closed = True

    def _open_window(self) -> None:
        """Let the other end continue to write if its data did not fit into the buffer."""
        if self.peer._blocked:
            self.peer._blocked = False
            self.link.transmit(self.peer, 0, self.peer._changed)

    def _changed(self) -> None:
        if self._loop is not None:
            self._loop.notify(self)
        elif self.on_change is not None:
            self.on_change()


class ListeningSocket:
    """Accepts the connections to one port of a host."""

    def __init__(self, host: Host, process: SimLoop, port: int) -> None:
        self._host = host
        self.process = process
        self._port = port
        self._backlog: deque[Socket] = deque()
        self._loop: SimLoop | None = None

    def getsockname(self) -> tuple[str, int]:
        return self._host.name, self._port

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        if not self._backlog:
            raise BlockingIOError
        end = self._backlog.popleft()
        return end, (end.peer.host.name, 1024)

    def connected(self, end: Socket) -> None:
        """A connection was opened; it waits to be accepted."""
        self._backlog.append(end)
        if self._loop is not None:
            self._loop.notify(self)

    def close(self) -> None:
        if self._host.listening.get(self._port) is self:
            del self._host.listening[self._port]
        for end in self._backlog:
            end.close()
        self._backlog.clear()

    def readable(self) -> bool:
        return bool(self._backlog)

    def writable(self) -> bool:
        return False

    def watch(self, loop: SimLoop) -> None:
        self._loop = loop

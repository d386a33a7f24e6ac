"""TCP proxies between the brokers of a local cluster and to their clients, with faults per direction of a link.

A proxy listens for each address of a broker. The origin of a connection is a broker, found by its process, or `CLIENT`.
A fault belongs to a pair (from, to): it affects the bytes that flow from one to the other, in connections that either
side has opened. Without a fault bytes pass unchanged.

    cut        no byte passes and no connection is opened, nothing is closed: both ends see silence
    delay_s    each piece of up to 64 KiB waits this long
    rate       bytes per second; a small number makes a link that is open and nearly useless

`reset` closes the open connections of a pair with RST, once. All proxies run on one event loop in a thread; the methods
may be called from any thread and return when the fault is in effect.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from ottla.testing.loop_thread import LoopThread
from ottla.testing.socket_owner import owner_of

CLIENT = -1
"""The origin of connections that no broker has opened."""
LOOPBACK = "127.0.0.1"
_PIECE_BYTES = 64 << 10
_TRICKLE_PIECES_PER_S = 20
_RESET = struct.pack("ii", 1, 0)
Pair = tuple[int, int]


@dataclass(frozen=True)
class Fault:
    """What happens to bytes in one direction."""

    cut: bool = False
    delay_s: float = 0.0
    rate: int | None = None


NO_FAULT = Fault()


@dataclass(eq=False)
class _Connection:
    origin: int
    target: int
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None


@dataclass
class _Listener:
    """An address of a broker. The socket is closed while the broker does not run, so that connections are refused."""

    target: int
    port: int
    target_port: int
    server: asyncio.Server | None = None


@dataclass
class _State:
    """What the event loop owns."""

    faults: dict[Pair, Fault] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set[_Connection] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class ProxyNetwork:
    """All proxies of one cluster. `processes` returns the process ids of the running brokers by node id."""

    def __init__(self, processes: Callable[[], Mapping[int, int]]) -> None:
        self._processes = processes
        self._listeners: list[_Listener] = []
        self._state = _State()
        self._thread = LoopThread("proxies")

    def add(self, target: int, port: int, target_port: int) -> None:
        """Listen on a port for a broker that listens on `target_port`."""
        self._listeners.append(_Listener(target, port, target_port))
        self.open(target)

    def open(self, target: int) -> None:
        """Accept connections to a broker."""
        self._thread.call(self._open(target))

    def close_listeners(self, target: int) -> None:
        """Refuse connections to a broker, as when its process does not run. Open connections stay."""
        self._thread.call(self._close_listeners(target))

    def set_fault(self, origin: int, target: int, fault: Fault) -> None:
        """Set the fault of one direction."""
        self._thread.call(self._set({(origin, target): fault}))

    def set_faults(self, faults: Mapping[Pair, Fault]) -> None:
        """Set the faults of several directions at once."""
        self._thread.call(self._set(faults))

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._thread.call(self._set(dict.fromkeys(self._state.faults, NO_FAULT)))

    def reset(self, one: int, other: int) -> None:
        """Close the connections between two nodes, in either direction, with RST."""
        self._thread.call(self._reset(lambda pair: pair in ((one, other), (other, one))))

    def shut_down(self) -> None:
        """End all connections and the thread."""
        self._thread.call(self._end())
        self._thread.shut_down()

    # --- on the event loop

    async def _open(self, target: int) -> None:
        for listener in self._listeners:
            if listener.target == target and listener.server is None:
                listener.server = await asyncio.start_server(
                    partial(self._accept, listener),
                    LOOPBACK,
                    listener.port,
                    limit=_PIECE_BYTES,
                )

    async def _close_listeners(self, target: int) -> None:
        for listener in self._listeners:
            if listener.target == target and listener.server is not None:
                listener.server.close()
                listener.server = None

    async def _set(self, faults: Mapping[Pair, Fault]) -> None:
        self._state.faults.update(faults)
        self._state.changed.set()
        self._state.changed = asyncio.Event()

    async def _reset(self, matches: Callable[[Pair], bool]) -> None:
        for connection in list(self._state.connections):
            if matches((connection.origin, connection.target)):
                _abort(connection.client)
                _abort(connection.server)

    async def _end(self) -> None:
        for target in {listener.target for listener in self._listeners}:
            await self._close_listeners(target)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._reset(lambda _: True)

    def _accept(
        self, listener: _Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = self._thread.loop.create_task(self._serve(listener, reader, writer))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    async def _serve(
        self, listener: _Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        origin = self._origin(writer, listener.port)
        connection = _Connection(origin, listener.target, writer)
        self._state.connections.add(connection)
        there, back = (origin, listener.target), (listener.target, origin)
        try:
            await self._passable(there)
            await self._passable(back)
            server_reader, server = await asyncio.open_connection(
                LOOPBACK, listener.target_port, limit=_PIECE_BYTES
            )
            connection.server = server
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, server, there))
                both.create_task(self._pump(server_reader, writer, back))
        except* OSError:
            pass
        finally:
            _abort(writer)
            _abort(connection.server)
            self._state.connections.discard(connection)

    def _origin(self, writer: asyncio.StreamWriter, port: int) -> int:
        nodes = {pid: node_id for node_id, pid in self._processes().items()}
        peer = writer.get_extra_info("peername")
        owner = None if peer is None else owner_of(peer[1], port, nodes)
        return CLIENT if owner is None else nodes[owner]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: Pair) -> None:
        """Copy until the end of the stream; the end also passes only if the pair is not cut."""
        while True:
            fault = self._state.faults.get(pair, NO_FAULT)
            size = _PIECE_BYTES if fault.rate is None else max(1, fault.rate // _TRICKLE_PIECES_PER_S)
            try:
                piece = await reader.read(size)
            except OSError:
                piece = b""
            await self._passable(pair)
            if not piece:
                raise ConnectionResetError
            fault = self._state.faults.get(pair, NO_FAULT)
            pause_s = fault.delay_s + (0.0 if fault.rate is None else len(piece) / fault.rate)
            if pause_s:
                await self._pause(pause_s)
                await self._passable(pair)
            if writer.transport.is_closing():
                raise ConnectionResetError
            writer.write(piece)
            await writer.drain()

    async def _passable(self, pair: Pair) -> None:
        while self._state.faults.get(pair, NO_FAULT).cut:
            await self._state.changed.wait()

    async def _pause(self, seconds: float) -> None:
        """Wait, or until the faults change."""
        waiting = asyncio.ensure_future(self._state.changed.wait())
        await asyncio.wait([waiting], timeout=seconds)
        waiting.cancel()


def _abort(writer: asyncio.StreamWriter | None) -> None:
    """Close a connection with RST and without waiting."""
    if writer is None or writer.transport.is_closing():
        return
    plain = writer.get_extra_info("socket")
    if plain is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()

"""The resources of a node: clock, randomness, disk, worker threads and sockets.

`this_machine` uses the operating system; `ottla.testing.sim` has a machine with simulated time, disk and network.
All other code of a node is the same on both.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ottla.base.clock import Clock, SystemClock
from ottla.base.executor import Executor, ThreadExecutor
from ottla.base.files import Disk, OsDisk
from ottla.base.rng import Random, system_random
from ottla.base.sends import Sends, make_sends
from ottla.base.writer import Writer, make_writer
from ottla.broker.net.listeners import Listener
from ottla.broker.net.server import listening_socket
from ottla.peer.connect import Connect
from ottla.peer.sockets import SocketConnector

_DISK_THREADS: Final = 4


class ClosingExecutor(Executor, Protocol):
    def close(self) -> None:
        """Wait until everything that was submitted is done."""


class ClosingWriter(Writer, Protocol):
    def close(self) -> None:
        """Wait until everything that was submitted is done."""


class Machine(NamedTuple):
    clock: Clock
    rng: Random
    disk: Disk
    executor: ClosingExecutor
    writer: ClosingWriter
    listen: Callable[[Listener], socket.socket]
    """Open a listening socket for that address; raises LocalError if this is not possible."""
    connect: Connect
    """Open a connection to another node, without blocking; `ottla.peer.connect` describes the contract."""
    sends: Sends | None = None
    """Sends responses to several sockets at once; None if they are sent one after the other."""


def this_machine(loop: asyncio.AbstractEventLoop) -> Machine:
    """The machine of the operating system; completions are delivered to `loop`."""
    clock = SystemClock()
    executor = ThreadExecutor(loop.call_soon_threadsafe, _DISK_THREADS)
    writer = make_writer(loop.add_reader, clock, executor, _DISK_THREADS)
    return Machine(
        clock,
        system_random(),
        OsDisk(),
        executor,
        writer,
        listening_socket,
        SocketConnector(loop),
        make_sends(),
    )

"""Two simulated hosts with one process each, for tests of the network."""

from __future__ import annotations

from typing import cast

from ottla.broker.net.listeners import Listener
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.links import Link
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.network import Network
from ottla.testing.sim.kernel.sockets import ListeningSocket, Socket

PORT = 9092


class Pair:
    """A host `a` that connects to a host `b`, which listens."""

    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel)
        self.a, self.b = self.network.add_host("a"), self.network.add_host("b")
        self.process_a, self.process_b = self.a.start_process("a.1"), self.b.start_process("b.1")
        self.there, self.back = self.network.links_between(self.a, self.b)
        self.listening = self.listen(self.b, self.process_b)
        self.outcomes: list[Socket | OSError] = []

    def listen(self, host: Host, process: SimLoop) -> ListeningSocket:
        return self.network.listen(host, process, Listener("PLAINTEXT", host.name, PORT, host.name, PORT))

    def connect(self, name: str = "b", port: int = PORT) -> None:
        def on_done(sock: object, error: OSError | None) -> None:
            self.outcomes.append(error if error is not None else cast(Socket, sock))

        self.cancel = self.network.connect(self.a, self.process_a, name, port, on_done)

    def connected(self) -> tuple[Socket, Socket]:
        """Both ends of a new connection."""
        self.connect()
        self.run()
        ours = self.outcomes.pop()
        assert isinstance(ours, Socket)
        return ours, self.listening.accept()[0]

    def run(self, until_ms: float | None = None) -> None:
        """Run all events, or those of the next milliseconds."""
        if until_ms is None:
            while self.kernel.step():
                pass
            return
        end_us = self.kernel.now_us + int(until_ms * 1000)
        ended: list[bool] = []
        self.kernel.schedule(end_us, self.kernel.root, lambda: ended.append(True))
        while not ended and self.kernel.step():
            pass

    @property
    def links(self) -> tuple[Link, Link]:
        return self.there, self.back


def received(end: Socket) -> bytes:
    """What has arrived at an end."""
    buffer = memoryview(bytearray(1 << 20))
    try:
        return bytes(buffer[: end.recv_into(buffer)])
    except BlockingIOError:
        return b""

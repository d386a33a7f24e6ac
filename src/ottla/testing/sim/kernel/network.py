"""Network of a simulation: hosts by name, the links between them, and how connections are opened.

Opening a connection takes a round trip. It is refused if no process listens at the port, and gets no response at all
while the other host is switched off or the link to it or back is cut.
"""

from __future__ import annotations

import errno
from typing import Any, cast

from ottla.broker.net.listeners import Listener
from ottla.peer.connect import Cancel, OnConnect
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.links import Conditions, Link
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.sockets import ListeningSocket, Socket

_LOOPBACK = ("127.0.0.1", "localhost")


class Network:
    """All hosts and links of a run."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.hosts: dict[str, Host] = {}
        self._conditions: dict[Host, Conditions] = {}
        self._links: dict[tuple[Host, Host], Link] = {}

    def add_host(self, name: str, conditions: Conditions | None = None) -> Host:
        """Create a host. Its outgoing links have these conditions, which hosts may share."""
        host = self.hosts[name] = Host(self.kernel, name)
        self._conditions[host] = conditions or Conditions()
        return host

    # Links

    def link(self, source: Host, target: Host) -> Link:
        """The link from one host to another."""
        found = self._links.get((source, target))
        if found is None:
            name = f"{source.name}->{target.name}"
            found = self._links[source, target] = Link(self.kernel, name, self._conditions[source])
        return found

    def links_between(self, first: Host, second: Host) -> tuple[Link, Link]:
        return self.link(first, second), self.link(second, first)

    def restore(self, hosts: set[Host]) -> None:
        """End all cuts of links between these hosts, and remove conditions that single links were given."""
        for (source, target), link in self._links.items():
            if source in hosts and target in hosts:
                link.conditions = self._conditions[source]
                link.restore()

    # Connections

    def listen(self, host: Host, process: SimLoop, listener: Listener) -> ListeningSocket:
        made = host.listening[listener.port] = ListeningSocket(host, process, listener.port)
        return made

    def connect(self, host: Host, process: SimLoop, name: str, port: int, on_done: OnConnect) -> Cancel:
        """Open a connection from a process of `host`, as `ottla.peer.connect` specifies."""
        target = host if name in _LOOPBACK else self.hosts.get(name)
        if target is None:
            error = OSError(errno.EHOSTUNREACH, f"no host is named {name!r}")
            return process.call_soon(on_done, None, error).cancel
        return _Attempt(self, host, process, target, port, on_done).cancel

    def reset_connections(self, first: Host, second: Host) -> int:
        """Reset all connections between two hosts; returns how many."""
        ends = [end for end in first.sockets if end.peer.host is second]
        for end in ends:
            self.reset_connection(end)
        return len(ends)

    def reset_connection(self, end: Socket) -> None:
        """Reset both ends: a device on the way has lost the connection, and what was in flight is lost."""
        for side in (end, end.peer):
            self.kernel.schedule(self.kernel.now_us, side.host, side.reset)


class _Attempt:
    """One attempt to open a connection."""

    def __init__(
        self, network: Network, host: Host, process: SimLoop, target: Host, port: int, on_done: OnConnect
    ) -> None:
        self._network = network
        self._process = process
        self._on_done = on_done
        self._cancelled = False
        there, back = network.links_between(host, target)
        self._ours = Socket(network, host, process, there)
        self._theirs = Socket(network, target, process, back)
        self._ours.peer, self._theirs.peer = self._theirs, self._ours
        there.transmit(self._theirs, 0, lambda: self._requested(port))

    def cancel(self) -> None:
        self._cancelled = True

    def _requested(self, port: int) -> None:
        """The request has arrived at the other host."""
        theirs = self._theirs
        listening = theirs.host.listening.get(port)
        if listening is None:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, f"{theirs.host.name}:{port} refused")
            theirs.link.transmit(self._ours, 0, lambda: self._report(None, refused))
            return
        theirs.process = listening.process
        theirs.host.opened(theirs)
        listening.connected(theirs)
        theirs.link.transmit(self._ours, 0, self._established)

    def _established(self) -> None:
        if not self._process.alive or self._cancelled:
            self._ours.close()
            return
        self._ours.host.opened(self._ours)
        self._report(self._ours, None)

    def _report(self, socket: Socket | None, error: OSError | None) -> None:
        self._process.call_soon(self._complete, socket, error)

    def _complete(self, socket: Socket | None, error: OSError | None) -> None:
        if not self._cancelled:
            self._on_done(cast(Any, socket), error)
        elif socket is not None:
            socket.close()

"""Simulated machine with its own disk, wall clock, random streams, processes and sockets.

A process of a host can be killed: its sockets are closed by the operating system, and all its writes survive. A host
can also lose power: unsynced writes may be lost, it sends no more packets, and the other ends of its connections
notice nothing until they send something to the host after it has been switched on again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.base.rng import Random
from ottla.testing.disk import Survival
from ottla.testing.sim.kernel.disk import PowerLossDisk
from ottla.testing.sim.kernel.events import START_MS, US_PER_SECOND, Kernel, Owner
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.pace import EVEN

if TYPE_CHECKING:
    from ottla.testing.sim.kernel.sockets import ListeningSocket, Socket


class HostClock:
    """Wall-clock time that can jump, and monotonic time that cannot."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.offset_ms = self.latest_offset_ms = START_MS

    def jump(self, offset_ms: int) -> None:
        self.offset_ms = offset_ms
        self.latest_offset_ms = max(self.latest_offset_ms, offset_ms)

    def now_ms(self) -> int:
        return self._kernel.now_ms + self.offset_ms

    def monotonic(self) -> float:
        return self._kernel.now_us / US_PER_SECOND


class Host(Owner):
    """One machine. Packets that arrive at it are its own events; its processes are owners of their events."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        super().__init__(name, kernel.trace(name))
        self.kernel = kernel
        self.clock = HostClock(kernel)
        self.disk = PowerLossDisk(self.stream("disk"))
        self.pace = EVEN
        self.slow_chance = 0.0
        self.slow_ms_max = 0.0
        """How often work of an executor is slow, and how much longer it then takes."""
        self.listening: dict[int, ListeningSocket] = {}
        self._processes: dict[SimLoop, dict[Socket, None]] = {}
        self._dead: list[SimLoop] = []

    def stream(self, purpose: str) -> Random:
        """Random numbers for one purpose on this host."""
        return self.kernel.stream(f"{self.name}: {purpose}")

    # Processes

    def start_process(self, name: str) -> SimLoop:
        """Start a process; the host must be switched on."""
        if not self.alive:
            raise RuntimeError(f"{self.name} is switched off: switch it on before you start {name}")
        loop = SimLoop(self.kernel, name, self.trace, self.pace)
        self._processes[loop] = {}
        return loop

    @property
    def processes(self) -> list[SimLoop]:
        """The running processes."""
        return list(self._processes)

    def kill_process(self, loop: SimLoop) -> None:
        """End a process. The operating system closes its sockets."""
        for socket in self._forget(loop):
            socket.close()

    def _forget(self, loop: SimLoop) -> list[Socket]:
        loop.terminate()
        self._dead.append(loop)  # its tasks must not be garbage-collected while other code runs
        for port, listening in list(self.listening.items()):
            if listening.process is loop:
                del self.listening[port]
        return list(self._processes.pop(loop, ()))

    # Sockets

    @property
    def sockets(self) -> list[Socket]:
        """The open sockets of all processes."""
        return [socket for sockets in self._processes.values() for socket in sockets]

    def opened(self, socket: Socket) -> None:
        """Record a socket of one of the processes."""
        if socket.process in self._processes:
            self._processes[socket.process][socket] = None

    def closed(self, socket: Socket) -> None:
        self._processes.get(socket.process, {}).pop(socket, None)

    # Faults

    def kill(self) -> None:
        """Kill all processes. The operating system continues, so that no write is lost."""
        for loop in self.processes:
            self.kill_process(loop)
        self._replace_disk(Survival.ALL)

    def power_off(self, survival: Survival) -> None:
        """Switch the host off at once; `survival`: what is left of unsynced writes."""
        for loop in self.processes:
            for socket in self._forget(loop):
                socket.vanish()
        self.listening.clear()
        self._replace_disk(survival)
        self.alive = False

    def power_on(self) -> None:
        """Switch the host on again. No process runs on it yet."""
        self.alive = True

    def pause(self, milliseconds: float) -> None:
        """Stop all running processes for a while. Packets still arrive in the buffers of their sockets."""
        for loop in self._processes:
            loop.pause(milliseconds)

    def resume(self) -> None:
        """End the pauses of all processes."""
        for loop in self._processes:
            loop.paused_until_us = 0

    def shut_down(self) -> None:
        """End of the run: nothing on this host has an effect any more."""
        self.alive = False
        for loop in self.processes:
            loop.terminate()
        self.disk.discard()

    def replace_disk(self) -> None:
        """Replace the disk by a new one, which is empty. No process may run."""
        before, self.disk = self.disk, PowerLossDisk(self.stream(f"disk {len(self._dead)}"))
        before.discard()

    def _replace_disk(self, survival: Survival) -> None:
        before, self.disk = self.disk, cast(PowerLossDisk, self.disk.crash(survival))
        before.discard()

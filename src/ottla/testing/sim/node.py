"""The broker under test: the real node, on a simulated machine, that dies and is started again.

Everything of `ottla.node` runs as it is: sockets, router, handlers, coordinators, controller, logs, recovery,
compaction. Below it, disk, clock, workers and network are simulated. A life begins with `start` and ends with
`kill`; what the next life finds is what the disk kept.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from ottla.base.errors import InvariantViolation
from ottla.base.writer import ExecutorWriter
from ottla.node.build import Node
from ottla.node.config import assemble
from ottla.node.machine import Machine
from ottla.replication.partition import Partition
from ottla.testing.disk import Survival
from ottla.testing.sim.kernel.disk import PowerLossDisk, SimExecutor
from ottla.testing.sim.kernel.events import START_MS, Kernel
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.network import Network

PORT: Final = 9092
_PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:9093",
    "log.dirs": "/data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class WallClock:
    """Wall time that may jump, and monotonic time that does not."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.offset_ms = START_MS

    def now_ms(self) -> int:
        return self._kernel.now_ms + self.offset_ms

    def monotonic(self) -> float:
        return self._kernel.now_us / 1_000_000


class TraceLogger:
    """The log of a node, written into the diary. A traceback in it is a bug that somebody swallowed."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def log(self, level: int, event: str, **fields: object) -> None:
        self._kernel.note("node", f"{event} {fields or ''}")

    def info(self, event: str, **fields: object) -> None:
        self.log(20, event, **fields)

    debug = warning = info

    def error(self, event: str, **fields: object) -> None:
        self.log(40, event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        text = traceback.format_exc()
        self._kernel.violated("no request fails unexpectedly", f"{event} {fields}\n{text}")


class SimNode:
    """One broker through all its lives."""

    def __init__(self, kernel: Kernel, network: Network, settings: Mapping[str, str]) -> None:
        self.kernel = kernel
        self.clock = WallClock(kernel)
        self.incarnation = 0
        self.ready = False
        self._stopping = False
        self.on_ready: Callable[[], None] = lambda: None
        self._network = network
        self._config = assemble({**_PROPERTIES, **settings}, {})
        self.disk = PowerLossDisk(kernel.stream("disk"))
        self.node: Node | None = None
        self.loop: SimLoop | None = None
        self.workers: SimExecutor | None = None
        self.slow_chance = 0.0
        self.slow_ms_max = 0.0
        self._dead: list[tuple[SimLoop, Node | None]] = []

    @property
    def running(self) -> bool:
        return self.loop is not None

    @property
    def partitions(self) -> Iterator[Partition]:
        """All partitions of the running node."""
        return iter(()) if self.node is None or not self.ready else iter(self.node._replicas)

    # Life and death

    def start(self) -> None:
        self.incarnation += 1
        self.kernel.count("broker starts")
        loop = self.loop = SimLoop(self.kernel, f"node{self.incarnation}")
        loop.on_error = self._unexpected
        loop.call_soon(self._boot, loop)

    def _boot(self, loop: SimLoop) -> None:
        rng = self.kernel.stream(f"node{self.incarnation}")
        workers = self.workers = SimExecutor(loop, rng)
        workers.slow_chance, workers.slow_ms_max = self.slow_chance, self.slow_ms_max
        machine = Machine(
            self.clock,
            rng,
            self.disk,
            workers,
            ExecutorWriter(workers),
            cast(Any, self._network.listen),
            self._network.connector("node", loop),
        )
        self.node = Node(self._config, cast(Any, TraceLogger(self.kernel)), machine)
        task = loop.create_task(self.node.start())
        task.add_done_callback(lambda done: self._booted(loop, done))

    def _booted(self, loop: SimLoop, task: Any) -> None:
        error = task.exception()
        if error is None:
            self.ready = True
            self.kernel.note("node", f"life {self.incarnation} serves")
            self.on_ready()
        elif self.disk.failures:
            self.kernel.note("node", f"cannot start on a broken disk: {error!r}")
        elif isinstance(error, Exception) and not self.disk.dead:
            self.kernel.violated("a broker starts again after any crash", repr(error))

    def kill(self, survival: Survival) -> None:
        """The process is gone; with ALL nothing written is lost, as when only the process died."""
        if self.loop is None:
            return
        self.kernel.note("node", f"life {self.incarnation} ends, of unsynced writes survive {survival.value}")
        self.kernel.count("broker crashes")
        self.loop.kill()
        self._dead.append((self.loop, self.node))  # its tasks must not be collected while others run
        self.loop, self.node, self.ready, self._stopping = None, None, False, False
        self._network.node_died()
        left, self.disk = self.disk, cast(PowerLossDisk, self.disk.crash(survival))
        left.discard()

    def shut_down(self) -> None:
        """The run is over: nothing of any life has an effect any more."""
        if self.loop is not None:
            self.loop.kill()
        self.disk.discard()

    def stop(self, stopped: Callable[[], None]) -> None:
        """A clean stop, told when it is done."""
        loop, node = self.loop, self.node
        if loop is None or node is None or not self.ready or self._stopping:
            return
        self._stopping = True
        self.kernel.note("node", f"life {self.incarnation} is stopped")
        self.kernel.count("broker stops")
        task = loop.create_task(node.stop())

        def done(ended: Any) -> None:
            if self.loop is loop:
                if isinstance(ended.exception(), Exception) and not (self.disk.dead or self.disk.failures):
                    self.kernel.violated("a broker stops cleanly", repr(ended.exception()))
                self.kill(Survival.ALL)
                stopped()

        task.add_done_callback(done)

    def _unexpected(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        rule = (
            "invariants of the broker hold" if isinstance(error, InvariantViolation) else "no process fails"
        )
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self.kernel.violated(rule, f"{context.get('message')}\n{trace}")

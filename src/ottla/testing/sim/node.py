"""Node under test: the real node on a simulated host, which crashes and is started again.

All of `ottla.node` runs unchanged: sockets, router, handlers, coordinators, controller, logs, recovery, compaction.
Only the host below it is simulated. Each start is a new incarnation, which finds what the disk has kept.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from ottla.base.errors import InvariantViolation
from ottla.base.ids import Uuid
from ottla.base.writer import ExecutorWriter
from ottla.metadata.image import MetadataImage
from ottla.node.build import Node
from ottla.node.machine import Machine
from ottla.node.quorum.metadata import MetadataNode
from ottla.node.settings.config import assemble
from ottla.peer.connect import Cancel, OnConnect
from ottla.quorum.runtime.driver import RaftQuorum
from ottla.replication.partition import Partition
from ottla.storage.log.log import Log
from ottla.testing.disk import Survival
from ottla.testing.sim.kernel.disk import PowerLossDisk
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.executor import SimExecutor
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.network import Network
from ottla.testing.sim.topology import PORT, NodeSpec


class TraceLogger:
    """Logger of a node that writes to the trace of its host. A logged exception is a violation."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self._kernel = kernel
        self._name = name

    def log(self, level: int, event: str, **fields: object) -> None:
        self._kernel.note(self._name, f"{event} {fields or ''}")

    def info(self, event: str, **fields: object) -> None:
        self.log(20, event, **fields)

    debug = warning = info

    def error(self, event: str, **fields: object) -> None:
        self.log(40, event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        text = traceback.format_exc()
        self._kernel.violated("no request fails unexpectedly", f"{self._name}: {event} {fields}\n{text}")


class SimNode:
    """One node in all its incarnations."""

    def __init__(self, network: Network, host: Host, spec: NodeSpec, settings: Mapping[str, str]) -> None:
        self.kernel = network.kernel
        self.network = network
        self.host = host
        self.spec = spec
        self.node_id = spec.node_id
        self.incarnation = 0
        self.damaged = False
        """Whether files of its disk are damaged: the disk is replaced before the next start."""
        self.node: Node | None = None
        self.loop: SimLoop | None = None
        self.on_start: Callable[[], None] = lambda: None
        """Called before each start."""
        self.on_disk_lost: Callable[[str], None] = lambda _: None
        """Called when the disk was replaced by an empty one, or that of the directory that is named."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when the node serves requests."""
        self.after_event: Callable[[], None] = lambda: None
        """Called after each event of the node."""
        self.on_power_lost: Callable[[], None] = lambda: self.power_off(Survival.SOME)
        """Called after the event in which the disk lost power; it must call `power_off`."""
        self.make_logger: Callable[[Kernel, str], object] = TraceLogger
        """Creates the logger of each incarnation."""
        self.config = assemble(dict(settings), {})
        self._ready = False
        self._stopping = False
        self._former: list[Node] = []

    @property
    def address(self) -> tuple[str, int]:
        return self.host.name, PORT

    @property
    def disk(self) -> PowerLossDisk:
        return self.host.disk

    @property
    def running(self) -> bool:
        return self.loop is not None and self.loop.alive

    @property
    def ready(self) -> bool:
        """Whether the node serves requests."""
        return self._ready and self.running

    @property
    def partitions(self) -> Iterator[Partition]:
        """All partitions of the node, from the time on at which its logs are open."""
        broker = None if self.node is None or not self.running else self.node.broker
        return iter(()) if broker is None else iter(broker.replicas)

    def directory_id(self, log: Log) -> Uuid:
        """The id of the log directory of a log; the node must serve requests."""
        broker = None if self.node is None else self.node.broker
        if broker is None:
            raise ValueError(f"node {self.node_id} has no broker")
        return broker._log_dirs.dir_of(log).directory_id

    @property
    def image(self) -> MetadataImage | None:
        """The metadata that the node has applied; None before it has opened its metadata log."""
        metadata = self._metadata
        return None if metadata is None else metadata.publisher.image

    @property
    def quorum(self) -> RaftQuorum | None:
        """The quorum as the node sees it; None before it has opened its metadata log, or if it is alone."""
        quorum = None if self._metadata is None else self._metadata.quorum
        return quorum if isinstance(quorum, RaftQuorum) else None

    @property
    def _metadata(self) -> MetadataNode | None:
        return None if self.node is None or not self.running else getattr(self.node, "_metadata", None)

    # Start

    def start(self) -> None:
        """Start a new incarnation, and switch the host on if it is off."""
        if not self.host.alive:
            self.host.power_on()
        self.incarnation += 1
        self.on_start()
        self.kernel.count("broker starts")
        if self.node is not None:
            self._former.append(self.node)  # its tasks must not be garbage-collected while other code runs
        self.node, self._ready, self._stopping = None, False, False
        loop = self.loop = self.host.start_process(f"{self.host.name}.{self.incarnation}")
        loop.on_error = self._unexpected
        loop.after_event = self._after_event
        loop.call_soon(self._boot, loop)

    def machine(self, loop: SimLoop) -> Machine:
        """The ports of a node that runs in this process of the host."""
        host, network = self.host, self.network
        executor = SimExecutor(host, loop)

        def connect(name: str, port: int, on_done: OnConnect, /) -> Cancel:
            return network.connect(host, loop, name, port, on_done)

        return Machine(
            host.clock,
            host.stream(loop.name),
            host.disk,
            executor,
            ExecutorWriter(executor),
            cast(Any, lambda listener: network.listen(host, loop, listener)),
            connect,
        )

    def _boot(self, loop: SimLoop) -> None:
        logger = self.make_logger(self.kernel, loop.name)
        try:
            self.node = Node(self.config, cast(Any, logger), self.machine(loop))
        except OSError as error:
            if not self.disk.failures:
                raise
            self.kernel.note(loop.name, f"cannot start on a failed disk: {error!r}")
            return
        self.node.failed.add_done_callback(partial(self._failed, loop))
        task = loop.create_task(self.node.start())
        task.add_done_callback(lambda done: self._booted(loop, done))

    def _booted(self, loop: SimLoop, task: Any) -> None:
        error = task.exception()
        disk = self.host.disk
        if error is None:
            self._ready = True
            self.kernel.note(loop.name, "serves requests")
            self.on_ready()
        elif disk.failures:
            self.kernel.note(loop.name, f"cannot start on a failed disk: {error!r}")
        elif isinstance(error, Exception) and not disk.power_lost:
            self.kernel.violated("a broker starts again after any crash", f"{loop.name}: {error!r}")

    def _after_event(self) -> None:
        disk = self.host.disk
        disk.inspected = True
        self.after_event()
        disk.inspected = False
        if disk.power_lost:
            self.on_power_lost()

    # End

    def _failed(self, loop: SimLoop, failed: asyncio.Future[str]) -> None:
        """The node cannot continue: its process ends, as in `node.main`."""
        if not loop.alive:
            return
        self.kernel.note(loop.name, f"fails: {failed.result()}")
        self.kernel.count("nodes failed")
        if not self.disk.failures:
            self.kernel.violated("no node fails while its disk works", f"{loop.name}: {failed.result()}")
        if self.ready:
            self.stop(lambda: None)
        else:
            self.kill()

    def kill(self) -> None:
        """Kill the process; its writes survive, because the operating system still runs."""
        if self.running:
            self._crashed("is killed")
            self.host.kill()

    def power_off(self, survival: Survival) -> None:
        """Switch the host off; `survival`: what is left of unsynced writes."""
        if self.running:
            self._crashed(f"loses power, of unsynced writes survive {survival.value}")
            self.host.power_off(survival)

    def wipe(self, directory: str = "") -> None:
        """Replace the disk, or the device of one directory, by an empty one; the node must not be running."""
        self.kernel.note(self.host.name, f"has a new disk {directory}")
        self.kernel.count("directories replaced" if directory else "disks replaced")
        self.damaged = False
        if directory:
            self.disk.repair()
            self.disk.rmtree(directory)
            self.disk.sync_all("/")
        else:
            self.host.replace_disk()
        self.on_disk_lost(directory)

    def _crashed(self, how: str) -> None:
        self.kernel.note(self.host.name, f"incarnation {self.incarnation} {how}")
        self.kernel.count("broker crashes")

    def stop(self, stopped: Callable[[], None]) -> None:
        """Stop the node cleanly, and call `stopped` afterwards."""
        loop, node = self.loop, self.node
        if loop is None or node is None or not self.ready or self._stopping:
            return
        self._stopping = True
        self.kernel.note(self.host.name, f"incarnation {self.incarnation} is stopped")
        self.kernel.count("broker stops")
        task = loop.create_task(node.stop())

        def done(ended: Any) -> None:
            if loop.alive:
                failed = self.host.disk.power_lost or self.host.disk.failures
                if isinstance(ended.exception(), Exception) and not failed:
                    self.kernel.violated("a broker stops cleanly", repr(ended.exception()))
                self.host.kill()
                stopped()

        task.add_done_callback(done)

    def _unexpected(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        rule = (
            "invariants of the broker hold" if isinstance(error, InvariantViolation) else "no process fails"
        )
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self.kernel.violated(rule, f"{self.host.name}: {context.get('message')}\n{trace}")

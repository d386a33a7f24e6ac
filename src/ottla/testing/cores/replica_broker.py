"""One broker in the simulation of replication: what survives a crash, and its replica while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ottla.replication.cluster_view import ClusterView
from ottla.replication.follower import FollowerState
from ottla.replication.isr_requests import IsrRequests
from ottla.replication.partition import Partition
from ottla.testing.cores.partition_controller import TOPIC_ID
from ottla.testing.cores.replica_log import Image, ReplicaLog

if TYPE_CHECKING:
    from ottla.testing.cores.replication import ReplicationSimulation


class _Clock:
    def __init__(self, simulation: ReplicationSimulation) -> None:
        self._simulation = simulation

    def now_ms(self) -> int:
        return int(self._simulation.now)

    def monotonic(self) -> float:
        return self._simulation.now / 1000


class Broker:
    """One node: what survives a crash, and the replica while it runs."""

    def __init__(self, simulation: ReplicationSimulation, node_id: int) -> None:
        self.simulation = simulation
        self.node_id = node_id
        self.image = Image()
        self.life = 0
        self.running = False
        self.paused_until = 0.0
        self.clean_epoch = -1  # of the last incarnation, if it was stopped cleanly
        self.boot_state()

    def boot_state(self) -> None:
        simulation = self.simulation
        self.epoch = -1
        self.applied = 0
        self.stopping = False
        self.log = ReplicaLog(
            self.image, simulation.config, copies_early=simulation.copies_early, synced=simulation.synced
        )
        self.view = ClusterView(_Clock(simulation), simulation.lag_max_s)
        life = self.life
        self.view.isr_requests = IsrRequests(
            self.node_id,
            lambda: self.epoch,
            lambda request: simulation.alter_partition(self, request),
            lambda delay, call: simulation.later(delay * 1000, simulation.guarded(self, life, call)),
        )
        self.partition = Partition(
            cast(Any, self.log),
            TOPIC_ID,
            self.node_id,
            lambda _: simulation.write(self),
            lambda fault: None,
            self.view,
        )
        self.follower: FollowerState | None = None
        self.outstanding: object | None = None
        self.checked_watermark = self.log.high_watermark
        self.led = -1

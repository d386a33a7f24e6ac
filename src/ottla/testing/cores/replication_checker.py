"""Invariants of the replication of one partition, checked by a simulation after each event.

- A leader epoch has one leader; what is committed at an offset never changes.
- A record is committed only when it is durable on every replica of the maximal ISR and of the controller's ISR.
- A new leader has every committed record; a replica has nothing else below its high watermark.
- The high watermark of a leader never moves back; an acknowledged record is committed.
- When the faults have ended, all replicas are in the ISR and equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.replication.partition import Partition
from ottla.testing.cores.event_queue import Violation
from ottla.testing.cores.partition_controller import PartitionController
from ottla.testing.cores.replica_log import Batch, Image, ReplicaLog

_UNCOMMITTED_MAX = 40
"""How many records may be appended and not committed yet at the end of a run."""


@dataclass
class ReplicationSummary:
    """What happened in one run."""

    seed: int
    events: int = 0
    elections: int = 0
    kills: int = 0
    committed: int = 0
    acknowledged: int = 0
    isr_changes: int = 0
    truncations: int = 0
    trace: int = 0


class CheckedBroker(Protocol):
    """A broker, as the checker uses it."""

    node_id: int
    image: Image
    running: bool
    log: ReplicaLog
    partition: Partition
    checked_watermark: int
    led: int


class ReplicationChecker:
    """Compares all brokers of one run."""

    def __init__(self, summary: ReplicationSummary, *, synced: bool) -> None:
        self._summary = summary
        self._synced = synced
        self._brokers: Mapping[int, CheckedBroker]
        self._controller: PartitionController
        self.committed: list[Batch] = []
        self.acknowledged: list[Batch] = []
        """Acknowledged in the current event."""
        self._leaders: dict[int, int] = {}

    def follow(self, brokers: Mapping[int, CheckedBroker], controller: PartitionController) -> None:
        """Check these brokers from now on."""
        self._brokers = brokers
        self._controller = controller

    def check(self, broker: CheckedBroker) -> None:
        """Check a broker after one of its events."""
        partition, log = broker.partition, broker.log
        if partition.leads and partition.leader_epoch != broker.led:
            broker.led = partition.leader_epoch
            self.check_leader(broker)
        if log.high_watermark != broker.checked_watermark:
            self.check_watermark(broker)
        if self.acknowledged:
            self.check_acknowledged()

    def check_leader(self, broker: CheckedBroker) -> None:
        epoch = broker.partition.leader_epoch
        if epoch not in self._leaders:
            self._summary.elections += 1
        if self._leaders.setdefault(epoch, broker.node_id) != broker.node_id:
            raise Violation(f"epoch {epoch} has the leaders {self._leaders[epoch]} and {broker.node_id}")
        if epoch == max(self._leaders) and broker.log.batches[: len(self.committed)] != self.committed:
            raise Violation(
                f"leader {broker.node_id} in epoch {epoch} lacks or contradicts committed records"
            )

    def check_watermark(self, broker: CheckedBroker) -> None:
        partition, log = broker.partition, broker.log
        watermark, before = log.high_watermark, broker.checked_watermark
        if watermark < before:
            raise Violation(f"the high watermark of {broker.node_id} went back from {before} to {watermark}")
        broker.checked_watermark = watermark
        known = self.committed[before:watermark]
        if log.batches[before : before + len(known)] != known:
            raise Violation(
                f"{broker.node_id} has other records below its high watermark than were committed"
            )
        new = log.batches[len(self.committed) : watermark]
        if not new:
            return
        if not partition.leads or partition._leading is None:
            raise Violation(f"{broker.node_id} committed {new[0]} and does not lead")
        members = set(partition._leading.maximal_isr)
        current = self._controller.partition
        if current is not None and current.leader_epoch == partition.leader_epoch:
            members |= set(current.isr)
        for member in members:
            other = self._brokers[member]
            if not self._synced and not (other.running and other.partition.leader_epoch >= 0):
                continue  # it does not run, or has restarted and has no role yet: it may have lost what it had
            durable = list(other.image.batches)
            if other.running:
                durable = other.log.batches[: other.log.committable_offset]
            if durable[len(self.committed) : watermark] != new:
                raise Violation(f"{new[0]} was committed by {broker.node_id} and is not durable on {member}")
        self.committed += new

    def check_truncation(self, broker: CheckedBroker, offset: int) -> None:
        """A member of the ISR never removes a committed record."""
        current = self._controller.partition
        if current is not None and broker.node_id in current.isr and offset < len(self.committed):
            raise Violation(f"{broker.node_id} is in the ISR and truncates to {offset}: committed records")

    def check_acknowledged(self) -> None:
        for batch in self.acknowledged:
            self._summary.acknowledged += 1
            if batch.offset >= len(self.committed) or self.committed[batch.offset] != batch:
                raise Violation(f"{batch} was acknowledged and is not committed")
        self.acknowledged.clear()

    def check_converged(self) -> None:
        current = self._controller.partition
        if current is None or set(current.isr) != set(self._brokers):
            raise Violation(f"not all replicas are in sync after the faults: {current}")
        leader = self._brokers[current.leader]
        if len(self.committed) < leader.log.log_end_offset - _UNCOMMITTED_MAX:
            raise Violation(f"{len(self.committed)} of {leader.log.log_end_offset} records are committed")
        for broker in self._brokers.values():
            end = min(broker.log.log_end_offset, leader.log.log_end_offset)
            if (
                broker.log.batches[:end] != leader.log.batches[:end]
                or end < len(self.committed) - _UNCOMMITTED_MAX
            ):
                raise Violation(f"{broker.node_id} differs from the leader {leader.node_id}")

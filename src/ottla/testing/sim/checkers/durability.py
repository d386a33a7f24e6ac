"""Checker of durability: what is committed is synced on every in-sync replica at that moment.

When a leader moves its high watermark over a batch, the batch must be in the durable content of the disk of every
member of the ISR: of the ISR that the leader uses, and of the one that the controller has committed for its epoch.
The checker reads the simulated disks. It does not use what the nodes report about themselves.

An acknowledgement with acks=all follows the high watermark, so that the rule holds for each of them, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.base.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.sim.checkers.logs import Batch
from ottla.testing.sim.kernel.disk import PowerLossDisk
from ottla.testing.sim.kernel.events import Kernel

_BASE_OFFSET = struct.Struct(">q")
_HEADER = struct.Struct(">qiibI")  # base offset, length of what follows it, leader epoch, magic, crc
_LENGTH_END = 12


class ReplicaNode(Protocol):
    """A node, as this checker uses it."""

    wiped: bool

    @property
    def disk(self) -> PowerLossDisk: ...


class DurabilityChecker:
    """Compares the disks of in-sync replicas with what their leaders commit."""

    def __init__(self, kernel: Kernel, data_dir: str) -> None:
        self._kernel = kernel
        self._data_dir = data_dir
        self.nodes: dict[int, ReplicaNode] = {}
        self.committed_isr: Mapping[tuple[TopicPartition, int], tuple[int, ...]] = {}
        """The ISR in the newest committed metadata, by partition and leader epoch."""

    def committed(self, node_id: int, partition: Partition, batches: list[Batch]) -> None:
        """A replica moved its high watermark over batches that were not committed before."""
        if not partition.leads:
            self._kernel.violated(
                "R3 the leader commits first", f"{partition.log} on {node_id} is no leader: {batches}"
            )
            return
        tp = partition.log.topic_partition
        isr = {*partition.isr, *self.committed_isr.get((tp, partition.leader_epoch), ())}
        for member in sorted(isr):
            node = self.nodes[member]
            if node.wiped:
                continue
            for missing in self._missing(node.disk, tp, batches):
                self._kernel.violated(
                    "R1 committed records are synced on every in-sync replica",
                    f"{partition.log}, leader {node_id} in epoch {partition.leader_epoch}, ISR {sorted(isr)}: "
                    f"{missing} is not durable on {member}",
                )
                return

    def _missing(self, disk: PowerLossDisk, tp: TopicPartition, batches: Iterable[Batch]) -> Iterable[Batch]:
        directory = f"{self._data_dir}/{tp}"
        if not disk.is_dir(directory):
            yield from batches
            return
        starts = sorted(int(name[:-4]) for name in disk.listdir(directory) if name.endswith(".log"))
        contents: dict[int, bytes] = {}
        for batch in batches:
            segment = max((start for start in starts if start <= batch.base_offset), default=-1)
            if segment not in contents:
                contents[segment] = disk.durable_data(f"{directory}/{segment:020d}.log") or b""
            if not _contains(contents[segment], batch):
                yield batch


def _contains(data: bytes, batch: Batch) -> bool:
    """Whether a segment contains the whole of a batch: its base offset, and the fields that follow it."""
    wanted = _BASE_OFFSET.pack(batch.base_offset)
    at = data.rfind(wanted)
    while at >= 0:
        if at + _HEADER.size <= len(data):
            _, length, epoch, _, crc = _HEADER.unpack_from(data, at)
            if (epoch, crc) == (batch.epoch, batch.crc) and at + _LENGTH_END + length <= len(data):
                return True
        at = data.rfind(wanted, 0, at + len(wanted) - 1)
    return False

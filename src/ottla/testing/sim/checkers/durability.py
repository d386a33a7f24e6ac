"""Checker of durability: what is committed is synced on every in-sync replica at that moment.

When a leader moves its high watermark over a batch, the batch must be in the durable content of the disk of every
member of the ISR: of the ISR that the leader uses, and of the one that the controller has committed for its epoch.
The checker reads the simulated disks. It does not use what the nodes report about themselves.

The ISR that the leader uses contains the committed one.

An acknowledgement with acks=all follows the high watermark, so that the rule holds for each of them, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ottla.base.ids import TopicPartition, Uuid
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from ottla.replication.leader import LeaderState
from ottla.replication.partition import Partition
from ottla.testing.sim.checkers.logs import Batch
from ottla.testing.sim.kernel.disk import PowerLossDisk
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.topology import NodeSpec

_BASE_OFFSET = struct.Struct(">q")
_HEADER = struct.Struct(">qiibI")  # base offset, length of what follows it, leader epoch, magic, crc
_LENGTH_END = 12


class ReplicaNode(Protocol):
    """A node, as this checker uses it."""

    @property
    def disk(self) -> PowerLossDisk: ...

    @property
    def spec(self) -> NodeSpec: ...


class DurabilityChecker:
    """Compares the disks of in-sync replicas with what their leaders commit."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.nodes: dict[int, ReplicaNode] = {}
        self.committed_isr: Mapping[tuple[Uuid, int, int], tuple[int, ...]] = {}
        """The ISR in the newest committed metadata, by topic id, partition and leader epoch."""
        self.newest: Callable[[], MetadataImage] = lambda: EMPTY_IMAGE
        self._lost: dict[tuple[int, TopicPartition], bool] = {}
        """Replicas that were lost with their disk, and whether they have left the ISR since then."""

    def lost(self, node_id: int, image: MetadataImage) -> None:
        """A node lost a disk. Its replicas do not count until they have joined the ISR again."""
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                if node_id in partition.replicas:
                    self._lost[node_id, TopicPartition(topic.name, index)] = node_id not in partition.isr

    def is_lost(self, node_id: int, tp: TopicPartition) -> bool:
        """Whether a replica was lost with its disk, and has not joined the ISR since then."""
        return (node_id, tp) in self._lost

    def isr_changed(self, tp: TopicPartition, partition: PartitionImage) -> None:
        """The newest metadata has another image of a partition."""
        for node_id in partition.replicas if self._lost else ():
            has_left = self._lost.get((node_id, tp))
            if has_left is None:
                continue
            if node_id not in partition.isr:
                self._lost[node_id, tp] = True
            elif has_left:
                del self._lost[node_id, tp]

    def committed(self, node_id: int, partition: Partition, batches: list[Batch]) -> None:
        """A replica moved its high watermark over batches that were not committed before."""
        if not partition.leads:
            self._kernel.violated(
                "R3 the leader commits first", f"{partition.log} on {node_id} is no leader: {batches}"
            )
            return
        tp = partition.log.topic_partition
        if partition._leading is not None:
            self._check_leader(node_id, partition, partition._leading)
        isr = {
            *partition.isr,
            *self.committed_isr.get((partition.topic_id, tp.partition, partition.leader_epoch), ()),
        }
        for member in sorted(isr):
            node = self.nodes[member]
            if self.is_lost(member, tp) or not self._is_replica(member, partition):
                continue
            for missing in self._missing(node, tp, batches):
                self._kernel.violated(
                    "R1 committed records are synced on every in-sync replica",
                    f"{partition.log}, leader {node_id} in epoch {partition.leader_epoch}, ISR {sorted(isr)}: "
                    f"{missing} is not durable on {member}",
                )
                return

    def _is_replica(self, node_id: int, partition: Partition) -> bool:
        """Whether a node still has a replica. A leader that was replaced may not have learned of the removal."""
        topic = self.newest().topics.by_id.get(partition.topic_id)
        known = None if topic is None else topic.partitions.get(partition.index)
        return known is not None and node_id in known.replicas

    def _check_leader(self, node_id: int, partition: Partition, leading: LeaderState) -> None:
        """Check the view of a leader that commits records."""
        key = (partition.topic_id, partition.index, partition.leader_epoch)
        committed = self.committed_isr.get(key, ())
        detail = f"{partition.log}, leader {node_id}: ISR {partition.isr}, committed {committed}"
        self._kernel.check(
            leading.maximal_isr.issuperset(committed),
            "R4 the maximal ISR of a leader contains the committed one",
            detail,
        )

    def _missing(self, node: ReplicaNode, tp: TopicPartition, batches: list[Batch]) -> list[Batch]:
        """The batches that are in none of the node's directories."""
        left = batches
        for directory in node.spec.log_dirs:
            left = list(self._missing_in(node.disk, f"{directory}/{tp}", left))
        return left

    def _missing_in(self, disk: PowerLossDisk, directory: str, batches: Iterable[Batch]) -> Iterable[Batch]:
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

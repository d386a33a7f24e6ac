"""Faults that lose records of a node: replaced disks, failed directories, damaged segments.

A node may lose its records if no partition needs them: of each partition whose ISR or ELR contains the node, these also
contain another replica, and all others in them have their records. Then no committed record may be lost, also if
several nodes lose their records one after the other. It is not enough that one of the others has its records: while
the controller does not know of the losses, this one may leave the ISR without being eligible. For the same reason
`min.insync.replicas` must be 2. A voter may lose its disk only if all other voters have theirs.

The rule is checked again when the disk is replaced. Meanwhile a topic may have been created while the other brokers
were fenced: its only in-sync replica is on that disk, and without it the partition would have no leader for ever, as
documented. Such a disk is not replaced; it works again with what it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.base.ids import TopicPartition
from ottla.records.batch import HEADER_SIZE, iter_batches
from ottla.testing.disk import Survival
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.cluster_faults import ClusterFaults
from ottla.testing.sim.node import SimNode
from ottla.testing.sim.topology import DATA_DIRS

_RECOVERY_FILE: Final = f"{DATA_DIRS[0]}/__cluster_metadata-0/quorum-recovery"
_RETRY_MS: Final = 200
_CLIENT_TOPICS: Final = ("in-", "txn-", "out-")


class DiskLosses(ClusterFaults):
    """Injects faults into a cluster, including those that lose records of a node."""

    def __init__(self, cluster: Cluster, clients: ClientSet, only: Sequence[str] = ()) -> None:
        super().__init__(cluster, clients, only)
        self._damage: dict[SimNode, tuple[str, int, int]] = {}
        """Of a damaged segment: its path, the position of the byte that was changed, and its value before."""

    def _replace(self, node: SimNode, directory: str = "") -> None:
        if self._is_needed(node):
            self._heal(node)
        else:
            super()._replace(node, directory)
        self._damage.pop(node, None)

    def _is_needed(self, node: SimNode) -> bool:
        """Whether a partition may need the records of this node."""
        cluster = self._cluster
        broken = {one.node_id for one in cluster.nodes if not _works(one)}
        for topic in cluster.metadata.newest.topics.by_id.values():
            for index, partition in topic.partitions.items():
                tp = TopicPartition(topic.name, index)
                members = {*partition.isr, *partition.eligible_leader_replicas}
                others = members - {node.node_id}
                lost = {one for one in others if one in broken or cluster.durability.is_lost(one, tp)}
                if node.node_id in members and (lost or not others):
                    return True
        return False

    def _heal(self, node: SimNode) -> None:
        """Repair a disk without loss; the node is not running."""
        self._kernel.count("disks repaired")
        node.damaged, node.disk.failed_dir = False, ""
        path, position, before = self._damage.get(node, ("", 0, 0))
        # The segment may have been removed or copied again meanwhile.
        if path and node.disk.exists(path):
            data = node.disk.read(path)
            if position < len(data) and data[position] != before:
                node.disk.corrupt(path, position)

    def _lose_records(self, node: SimNode, act: Callable[[], None]) -> None:
        """Act as soon as the node may lose its records."""
        if self._over or self._cluster.min_isr < 2:
            return
        if self._may_lose_records(node):
            act()
        else:
            self._kernel.after_ms(_RETRY_MS, self._cluster.owner, lambda: self._lose_records(node, act))

    def _may_lose_records(self, node: SimNode) -> bool:
        if not node.ready or not _works(node) or self._is_needed(node):
            return False
        voters = [each for each in self._cluster.nodes if each.spec.is_voter]
        return node not in voters or (len(voters) >= 3 and all(map(_has_metadata, voters)))

    def do_replace_disk(self) -> None:
        """A node stops, cleanly or not, and starts again with an empty disk."""
        node = self._node()
        self._lose_records(node, lambda: self._replace_disk(node))

    def _replace_disk(self, node: SimNode) -> None:
        node.damaged = True
        if self._rng.random() < 0.3:
            node.stop(lambda: self._restart(node))
        else:
            node.power_off(Survival.NONE)
            self._restart(node)

    def do_fail_directory(self) -> None:
        """One of two directories fails. Later its device is replaced, and the broker is restarted."""
        node = self._node()
        if node.spec.directories > 1:
            self._lose_records(node, lambda: self._fail_directory(node))

    def _fail_directory(self, node: SimNode) -> None:
        self._kernel.count("failed directories")
        node.disk.failed_dir = self._rng.choice((DATA_DIRS[1], DATA_DIRS[1], DATA_DIRS[0]))
        self._later(lambda: self._repair(node) if node.disk.failed_dir else None)

    def do_damage_segment(self) -> None:
        """A byte of a record in a closed segment changes; later the disk is replaced. No copy may have the damage."""
        node = self._node()
        self._lose_records(node, lambda: self._damage_segment(node))

    def _damage_segment(self, node: SimNode) -> None:
        closed = list(_closed_segments(node))
        path = self._rng.choice(closed) if closed else ""
        batches = list(iter_batches(node.disk.read(path))) if path else []
        if not batches:
            return
        start, header = self._rng.choice(batches)
        self._kernel.count("damaged segments")
        position = start + self._rng.randrange(HEADER_SIZE, header.size_in_bytes)
        self._damage[node] = path, position, node.disk.read(path)[position]
        node.disk.corrupt(path, position)
        node.damaged = True
        self._later(lambda: self._repair(node) if node.damaged else None)


def _works(node: SimNode) -> bool:
    """Whether the disk of a node works, and is not about to be replaced."""
    return not node.damaged and not node.disk.failed_dir and not node.disk.full


def _has_metadata(voter: SimNode) -> bool:
    """Whether a voter is up, and has the metadata on its disk."""
    return voter.ready and _works(voter) and not voter.disk.exists(_RECOVERY_FILE)


def _closed_segments(node: SimNode) -> Iterator[str]:
    """The log files of client topics that are not the active segments of their logs."""
    disk = node.disk
    for directory in node.spec.log_dirs:
        for name in disk.listdir(directory) if disk.is_dir(directory) else ():
            if name.startswith(_CLIENT_TOPICS) and "." not in name:
                logs = [inner for inner in disk.listdir(f"{directory}/{name}") if inner.endswith(".log")]
                yield from (f"{directory}/{name}/{inner}" for inner in logs[:-1])

"""Convergence of a cluster after the faults: what is not finished yet, and what must be true in the end.

When the faults are over, a cluster must converge: producers finish, no transaction stays open, groups are stable with
one owner of every partition, and every record that can be seen is processed and copied once.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ottla.base.ids import TopicPartition
from ottla.testing.sim.checkers.offsets import Slot
from ottla.testing.sim.checkers.transaction_states import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.clients.copier import OUT_TOPIC
from ottla.testing.sim.clients.log_mover import LogMover
from ottla.testing.sim.clients.member import Member
from ottla.testing.sim.clients.offset_client import OffsetClient
from ottla.testing.sim.clients.producers import Source, TxnProducer
from ottla.testing.sim.clients.readers import Reader
from ottla.testing.sim.clients.reassigner import Reassigner
from ottla.testing.sim.clients.topic_cycler import TopicCycler
from ottla.testing.sim.cluster import Cluster

TWO_PHASE_CLIENT = "two-phase"
_WRITERS: Final = (Source, TxnProducer, OffsetClient, TopicCycler, Reassigner, LogMover)


class Convergence:
    """Checks of one cluster; `lost` are producers that were killed and are not restarted."""

    def __init__(self, cluster: Cluster, clients: ClientSet) -> None:
        self._cluster = cluster
        self._clients = clients
        self.lost: list[Client] = []

    def unfinished(self) -> str | None:
        """Describe something that has not converged; None if everything has."""
        return (
            self._writing()
            or self._open_transaction()
            or self._unread()
            or self._unowned()
            or self._out_of_sync()
            or self._misplaced()
        )

    def _writing(self) -> str | None:
        for client in self._clients.clients.values():
            writes = isinstance(client, _WRITERS) and client not in self.lost
            if writes and not client.process.done:
                return f"{client.name} still writes"
        return None

    def _open_transaction(self) -> str | None:
        cluster = self._cluster
        undecided = {
            tp: producers
            for tp, producers in cluster.logs.undecided().items()
            if not self._is_prepared(producers)
        }
        if undecided:
            return f"open transactions: {undecided}"
        for transactional_id, state in cluster.txn_states.last.items():
            is_open = state.transaction_status not in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
            if is_open and transactional_id != TWO_PHASE_CLIENT:
                return f"{transactional_id} is in state {state.transaction_status}"
        return None

    def _is_prepared(self, producers: list[int]) -> bool:
        """Whether only the prepared transaction is open, which ends only at the request of its owner."""
        state = self._cluster.txn_states.last.get(TWO_PHASE_CLIENT)
        return state is not None and producers == [state.producer_id]

    def _unread(self) -> str | None:
        """A group or reader that has not reached the end of a partition."""
        cluster = self._cluster
        ends = {
            partition.log.topic_partition: partition.log.last_stable_offset
            for partition in cluster.replicas
            if partition.topic in cluster.topics and partition.leads
        }
        for topic in cluster.topics:
            for tp in cluster.partitions(topic):
                if tp not in ends:
                    return f"{tp} has no leader that is up"
        for group, topics in self._groups().items():
            for tp, end in ends.items():
                committed = cluster.offsets.committed(Slot(group, tp))
                if tp.topic in topics and committed < end and end:
                    return f"{group} has committed {committed} of {end} in {tp}"
        for client in self._clients.clients.values():
            if isinstance(client, Reader):
                behind = {tp: end for tp, end in ends.items() if client.positions.get(tp, 0) < end}
                if behind and client.committed:
                    return f"{client.name} has not read {behind}"
        return None

    def _groups(self) -> dict[str, tuple[str, ...]]:
        members = [client for client in self._clients.clients.values() if isinstance(client, Member)]
        return {member.group: member.topics for member in members}

    def _unowned(self) -> str | None:
        for group, topics in self._groups().items():
            for topic in topics:
                for tp in self._cluster.partitions(topic):
                    owners = self._cluster.ownership.owners(group, tp)
                    if len(owners) != 1:
                        return f"{tp} is owned by {owners} in {group}"
        return None

    def _out_of_sync(self) -> str | None:
        """A replica that is not in the ISR of its partition, or that does not have all records, or not committed."""
        cluster = self._cluster
        newest = cluster.metadata.newest
        for node in cluster.nodes:
            if not node.ready or node.image is None or node.image.offset != newest.offset:
                return f"node {node.node_id} is not up, or has not applied the newest metadata"
        ends: dict[TopicPartition, set[tuple[int, int]]] = {}
        for replica in cluster.replicas:
            log = replica.log
            ends.setdefault(log.topic_partition, set()).add((log.high_watermark, log.log_end_offset))
        for topic in newest.topics.by_id.values():
            for index, partition in topic.partitions.items():
                tp = TopicPartition(topic.name, index)
                if partition.adding_replicas or partition.removing_replicas:
                    return f"{tp} is being reassigned: {partition}"
                if set(partition.isr) != set(partition.replicas):
                    return f"{tp} has the replicas {partition.replicas}, in sync {partition.isr}"
                found = ends.get(tp, set())
                if len(found) != 1 or any(high_watermark != end for high_watermark, end in found):
                    return f"the replicas of {tp} have the high watermarks and ends {sorted(found)}"
        return None

    def _misplaced(self) -> str | None:
        """A replica that is being moved, or that is in another directory than the metadata says."""
        topics = self._cluster.metadata.newest.topics.by_id
        for node in self._cluster.brokers:
            for path in node.spec.log_dirs:
                moved = [name for name in node.disk.listdir(path) if name.endswith("-future")]
                if moved:
                    return f"node {node.node_id} still moves {moved}"
            for replica in node.partitions:
                known = topics[replica.topic_id].partitions[replica.index].directory_of(node.node_id)
                if known != node.directory_id(replica.log):
                    return f"node {node.node_id} has {replica.log}, which is not {known}"
        return None

    def check(self) -> None:
        """Check what must be true of a cluster that has converged."""
        cluster, check = self._cluster, self._cluster.kernel.check
        lost = cluster.txns.lost()
        check(not lost, "T4 what was committed can be read", f"{lost[:5]}")
        for tp, difference in cluster.logs.differences(cluster.replicas).items():
            check(False, "R2 all replicas are equal after the faults", f"{tp}: {difference}")
        # No consumer reads committed records behind a prepared transaction.
        read_to_end = not cluster.logs.undecided()
        for anomaly in cluster.txns.history.anomalies(read_to_end=read_to_end):
            check(False, f"history: {anomaly.kind}", f"{anomaly.partition}: {anomaly.detail}")
        if "copiers" not in self._groups():
            return
        for tp in cluster.partitions("in"):
            originals = [value for _, value in cluster.txns.visible(tp, 0, 2**62, committed=True)]
            target = TopicPartition(OUT_TOPIC, tp.partition)
            copies = [
                value.partition("=")[2].replace(":", "/")
                for _, value in cluster.txns.visible(target, 0, 2**62, committed=True)
            ]
            detail = f"{tp}: {_difference(originals, copies)}"
            check(originals == copies, "exactly once: the copy equals the original", detail)


def _difference(originals: list[str], copies: list[str]) -> str:
    duplicates = [value for value, count in Counter(copies).items() if count > 1]
    missing = [value for value in originals if value not in set(copies)]
    return (
        f"{len(originals)} originals, {len(copies)} copies, "
        f"duplicates {duplicates[:5]}, missing {missing[:5]}"
    )

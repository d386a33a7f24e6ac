"""Checks of transactions: their atomicity, and the order of their reads and writes.

Write cycles are found without a search: if the records of a partition are read in the order of offsets, no transaction
that had ended may follow a transaction that began later. Only isolated writes need the graph of all writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ottla.base.ids import TopicPartition
from ottla.testing.history.cycles import cyclic_components
from ottla.testing.history.events import Anomaly, Kind, Transaction, Value
from ottla.testing.history.observations import Observations, ObservedLog

Edges = dict[str, set[str]]


class TransactionChecks:
    """The anomalies that transactions exclude."""

    def __init__(self, seen: Observations, log: ObservedLog) -> None:
        self._seen = seen
        self._log = log

    def anomalies(self, *, read_to_end: bool, isolated_writes: bool) -> Iterator[Anomaly]:
        if not self._seen.transactions:
            return
        yield from self._uncommitted_reads()
        yield from self._lost_updates()
        for partition in self._log.values:
            yield from self._late_writes(partition)
            if isolated_writes:
                yield from self._interleaved(partition)
        if read_to_end:
            yield from self._partial()
        yield from self._cycles(isolated_writes=isolated_writes)

    def _uncommitted_reads(self) -> Iterator[Anomaly]:
        """What readers of committed records should not have read, or not yet."""
        for consumer, read in self._seen.all_reads():
            transaction = self._seen.transaction_of(read.value)
            if transaction is None or consumer not in self._seen.committed_readers:
                continue
            where = f"{consumer} read {read.value!r} of {transaction.name} at offset {read.offset}"
            if transaction.committed is False:
                yield Anomaly(Kind.ABORTED_READ, read.partition, f"{where}, which was aborted")
            elif not transaction.commit_requested or _is_before(read.at, transaction.requested_at):
                yield Anomaly(Kind.INTERMEDIATE_READ, read.partition, f"{where} before its commit")

    def _partial(self) -> Iterator[Anomaly]:
        """Transactions whose end is unknown and of which only a part is visible."""
        for transaction in self._seen.transactions.values():
            if transaction.committed is not None or transaction.name not in self._log.committed:
                continue
            for value in transaction.values:
                if value in self._seen.acknowledged and value not in self._log.visible:
                    partition, offset = self._seen.acknowledged[value]
                    detail = f"{transaction.name} is visible without {value!r} at offset {offset}"
                    yield Anomaly(Kind.INTERMEDIATE_READ, partition, detail)

    def _lost_updates(self) -> Iterator[Anomaly]:
        processed: dict[tuple[str, TopicPartition, int], str] = {}
        for _, read in self._seen.all_reads():
            if read.transaction is None or read.transaction not in self._log.committed:
                continue
            group = self._seen.transactions[read.transaction].group
            if group is None:
                continue
            other = processed.setdefault((group, read.partition, read.offset), read.transaction)
            if other != read.transaction:
                detail = f"offset {read.offset} was processed by {other} and by {read.transaction} of {group}"
                yield Anomaly(Kind.LOST_UPDATE, read.partition, detail)

    # Order of writes

    def _late_writes(self, partition: TopicPartition) -> Iterator[Anomaly]:
        """Transactions that had ended, and whose records follow those of a transaction that began later."""
        newest: Transaction | None = None
        for offset, value in self._log.in_order(partition):
            transaction = self._seen.transaction_of(value)
            if transaction is None or transaction.began_at is None:
                continue
            if newest is not None and _is_before(transaction.ended_at, newest.began_at):
                detail = (
                    f"{value!r} of {transaction.name} at offset {offset} follows {newest.name}, "
                    f"which began after the end of {transaction.name}"
                )
                yield Anomaly(Kind.WRITE_CYCLE, partition, detail)
            if newest is None or _is_before(newest.began_at, transaction.began_at):
                newest = transaction

    def _interleaved(self, partition: TopicPartition) -> Iterator[Anomaly]:
        """Records of other writers between those of one transaction."""
        closed: set[str] = set()
        last: str | None = None
        for offset, value in self._log.in_order(partition):
            send = self._seen.sends.get(value)
            name = None if send is None else send.transaction
            if name != last:
                if last is not None:
                    closed.add(last)
                if name in closed:
                    detail = f"other records are between those of {name} before offset {offset}"
                    yield Anomaly(Kind.INTERNAL_SEND_SKIP, partition, detail)
            last = name

    # Cycles

    def _cycles(self, *, isolated_writes: bool) -> Iterator[Anomaly]:
        order = self._session_edges()
        writes = self._write_edges() if isolated_writes else {}
        reads = self._read_edges()
        for component in cyclic_components(_union(order, writes)):
            yield Anomaly(Kind.WRITE_CYCLE, None, f"{sorted(component)} have written in a cycle")
        for component in cyclic_components(_union(order, writes, reads)):
            inside = set(component)
            if any(source in inside and targets & inside for source, targets in reads.items()):
                detail = f"{sorted(component)} depend on each other's writes"
                yield Anomaly(Kind.CYCLIC_INFORMATION_FLOW, None, detail)

    def _session_edges(self) -> Edges:
        """From each transaction to the next one of its producer, if it had ended before."""
        by_producer: dict[str, list[str]] = {}
        for name, transaction in self._seen.transactions.items():
            if name in self._log.committed and transaction.committed:
                by_producer.setdefault(transaction.producer, []).append(name)
        return {one: {other} for names in by_producer.values() for one, other in pairwise(names)}

    def _write_edges(self) -> Edges:
        """From each transaction to the one whose records follow in a partition."""
        edges: Edges = {}
        for partition in self._log.values:
            names = [name for _, value in self._log.in_order(partition) if (name := self._committed(value))]
            for one, other in pairwise(names):
                if one != other:
                    edges.setdefault(one, set()).add(other)
        return edges

    def _read_edges(self) -> Edges:
        """From each transaction to those that have read its records."""
        edges: Edges = {}
        for _, read in self._seen.all_reads():
            writer = self._committed(read.value)
            if writer is None or read.transaction is None or read.transaction == writer:
                continue
            if read.transaction in self._log.committed:
                edges.setdefault(writer, set()).add(read.transaction)
        return edges

    def _committed(self, value: Value) -> str | None:
        """The name of the committed transaction in which a value was sent."""
        send = self._seen.sends.get(value)
        name = None if send is None else send.transaction
        return name if name in self._log.committed else None


def _is_before(one: float | None, other: float | None) -> bool:
    """Whether one time is known to be before another one."""
    return one is not None and other is not None and one < other


def _union(*graphs: Edges) -> Edges:
    whole: Edges = {}
    for graph in graphs:
        for source, targets in graph.items():
            whole.setdefault(source, set()).update(targets)
    return whole

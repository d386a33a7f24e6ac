"""Checker of records and transactions: exactly once, atomic, and nothing from fenced producers.

Every record of a simulated producer has a unique name: `<client>/<incarnation>/<transaction>/<number>`. The first three
parts identify the transaction. So each record in a log can be traced to the transaction in which it was sent.

Rules, in the numbering of the invariants (docs/SIMULATION.md):

- T1 a record is in the log once; an acknowledged one is at the offset that its producer received;
- T3 once a producer has received its new epoch, nothing with an older epoch is appended. The coordinator determines
  which of two processes is the newer one: an earlier incarnation may have sent its request again later;
- T4 all partitions of a transaction end in the same way, and as the producer was notified; it is committed only if its
  producer requested that; readers of committed records see exactly the records of committed transactions;
- T6 all records that one marker ends were sent in one transaction.

What producers and readers report is also recorded in `history`. It is checked at the end, without the logs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.records.record import Record
from ottla.testing.history.history import History
from ottla.testing.sim.kernel.events import Kernel


class TxnName(NamedTuple):
    """Identity of a transaction: the client, its incarnation, and a number."""

    producer: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.producer}/{self.incarnation}/{self.number}"


class Epoch(NamedTuple):
    """Producer id and epoch. Producer ids are assigned in increasing order, so that epochs can be compared."""

    producer_id: int
    producer_epoch: int


class Txn:
    """A transaction, as its producer and the logs describe it."""

    __slots__ = ("acknowledged", "ends", "name", "prepared", "reported", "requested")

    def __init__(self, name: TxnName) -> None:
        self.name = name
        self.requested: set[bool] = set()  # the ends that its producer has requested: commit, abort
        self.reported: bool | None = None  # the end that its producer was notified of
        self.ends: dict[TopicPartition, bool] = {}  # the markers
        self.acknowledged: dict[str, TopicPartition] = {}  # records whose append was acknowledged
        self.prepared = False  # for two-phase commit: it ends only on request


class Entry:
    """A record in a log."""

    __slots__ = ("committed", "offset", "txn", "value")

    def __init__(self, offset: int, value: str, txn: Txn | None) -> None:
        self.offset = offset
        self.value = value
        self.txn = txn
        self.committed: bool | None = None if txn else True


class TransactionChecker:
    """Records and markers of all ordinary topics, compared with what producers report."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.history = History(lambda: kernel.now_us)
        self.txns: dict[TxnName, Txn] = {}
        self.entries: dict[TopicPartition, list[Entry]] = {}
        self._seen: dict[str, str] = {}
        self._open: dict[tuple[TopicPartition, int], list[Entry]] = {}
        # By producer: the newest epoch that was returned, and the log end offsets at that time.
        self._fences: dict[str, tuple[Epoch, dict[TopicPartition, int]]] = {}
        self._unanswered: Counter[str] = Counter()
        """By producer: requests for an epoch without a response. They may be executed at any later time."""

    # What producers report

    def begin(self, name: TxnName, group: str | None = None) -> Txn:
        """A producer begins a transaction, which commits the offsets of a group, if any."""
        txn = self.txns[name] = Txn(name)
        if self._unanswered[name.producer]:
            txn.requested.add(False)
        self.history.began(str(name), f"{name.producer}/{name.incarnation}", group)
        return txn

    def sent(self, txn: Txn | None, producer: str, values: list[str]) -> None:
        """A producer sends records for the first time."""
        for value in values:
            self.history.sent(producer, value.encode(), None if txn is None else str(txn.name))

    def init_requested(self, producer: str) -> None:
        """A producer requests an epoch, and with it the abort of its open transactions.

        A request that arrives late also aborts a transaction that began after another attempt got its response.
        """
        self._unanswered[producer] += 1
        for txn in self.txns.values():
            if txn.name.producer == producer and txn.reported is None:
                txn.requested.add(False)

    def init_answered(self, producer: str) -> None:
        """A producer got the response to a request for an epoch: it has been executed, or it was refused."""
        self._unanswered[producer] -= 1

    def initialised(self, producer: str, epoch: Epoch, log_ends: dict[TopicPartition, int]) -> None:
        """A producer received its epoch: nothing with an older epoch is appended after the current log ends."""
        newest = self._fences.get(producer)
        if newest is None or newest[0] < epoch:
            self._fences[producer] = (epoch, log_ends)

    def acknowledged(
        self,
        txn: Txn | None,
        tp: TopicPartition,
        base_offset: int,
        values: list[str],
        *,
        in_history: bool = True,
    ) -> None:
        """A producer received the offsets of its records. Those of a topic that is deleted are not in the history."""
        found = [value for _, value in self.visible(tp, base_offset, base_offset + len(values))]
        self._kernel.check(
            found == values,
            "R1 T1 acknowledged records are in the log, at the offsets that the producer received",
            f"{tp} at {base_offset}: {found} instead of {values}",
        )
        for number, value in enumerate(values if in_history else ()):
            self.history.acknowledged(value.encode(), tp, base_offset + number)
        if txn is not None:
            txn.acknowledged.update(dict.fromkeys(values, tp))

    def end_requested(self, txn: Txn, *, committed: bool) -> None:
        """A producer requests the end of its transaction."""
        txn.requested.add(committed)
        if committed:
            self.history.commit_requested(str(txn.name))

    def ended(self, txn: Txn, *, committed: bool) -> None:
        """A producer was notified of the end of its transaction."""
        if txn.reported not in (None, committed):
            self._kernel.violated(
                "T4 a transaction ends once", f"{txn.name}: notified of {txn.reported}, then of {committed}"
            )
        txn.reported = committed
        self.history.ended(str(txn.name), committed=committed)
        self._check_ends(txn)

    # What logs contain

    def data(self, tp: TopicPartition, header: BatchHeader, records: list[Record]) -> None:
        for record in records:
            value = (record.value or b"").decode()
            txn = self._txn_of(value) if header.is_transactional else None
            entry = Entry(header.base_offset + record.offset_delta, value, txn)
            where = f"{tp} at {entry.offset}"
            first = self._seen.setdefault(value, where)
            self._kernel.check(first is where, "T1 a record is written once", f"{value}: {first}, {where}")
            self.entries.setdefault(tp, []).append(entry)
            if txn is not None:
                self._opened(tp, header, entry, txn)

    def _opened(self, tp: TopicPartition, header: BatchHeader, entry: Entry, txn: Txn) -> None:
        open_entries = self._open.setdefault((tp, header.producer_id), [])
        if open_entries and open_entries[0].txn is not txn:
            before = open_entries[0].txn
            self._kernel.violated(
                "T6 no record of one transaction is appended to another",
                f"{tp}: {entry.value} while {before.name if before else None} is open",
            )
        open_entries.append(entry)
        fence = self._fences.get(txn.name.producer)
        epoch = Epoch(header.producer_id, header.producer_epoch)
        if fence is not None and epoch < fence[0] and entry.offset >= fence[1].get(tp, 0):
            self._kernel.violated(
                "T3 nothing of a fenced producer is appended",
                f"{tp} at {entry.offset}: {entry.value} with {epoch}, {fence[0]} was returned at {fence[1]}",
            )

    def marker(self, tp: TopicPartition, header: BatchHeader, *, committed: bool) -> None:
        entries = self._open.pop((tp, header.producer_id), [])
        for entry in entries:
            entry.committed = committed
        if entries and entries[0].txn is not None:
            self.marked(entries[0].txn, tp, committed=committed)

    def marked(self, txn: Txn, tp: TopicPartition, *, committed: bool) -> None:
        """A marker ended a transaction in one partition."""
        self._kernel.count("markers")
        before = txn.ends.setdefault(tp, committed)
        self._kernel.check(
            before == committed, "T4 a transaction ends once", f"{txn.name} in {tp}: {before}, {committed}"
        )
        self._check_ends(txn)

    def _check_ends(self, txn: Txn) -> None:
        ends = set(txn.ends.values())
        detail = f"{txn.name}: markers {_markers(txn)}, requested {txn.requested}, notified of {txn.reported}"
        check = self._kernel.check
        check(len(ends) <= 1, "T4 a transaction ends in the same way in all partitions", detail)
        check(
            txn.reported is None or not ends or ends == {txn.reported},
            "T4 a transaction ends as its producer was notified",
            detail,
        )
        check(
            True not in ends or True in txn.requested, "T4 a transaction is committed only on request", detail
        )
        check(
            not txn.prepared or False not in ends or False in txn.requested,
            "T5 a prepared transaction is not ended by a timeout",
            detail,
        )

    def _txn_of(self, value: str) -> Txn:
        producer, incarnation, number, _ = value.split("/")
        name = TxnName(producer, int(incarnation), int(number))
        return self.txns.get(name) or self.begin(name)

    # What readers see

    def read(
        self, consumer: str, found: Mapping[TopicPartition, list[tuple[int, str]]], txn: Txn | None = None
    ) -> None:
        """Record what a consumer has read; a transaction may process it."""
        for tp, records in found.items():
            for offset, value in records:
                self.history.read(
                    consumer, tp, offset, value.encode(), None if txn is None else str(txn.name)
                )

    def visible(
        self, tp: TopicPartition, start: int, end: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        """What a reader must see of the offsets from `start` to before `end`."""
        found = self._between(tp, start, end)
        return [(entry.offset, entry.value) for entry in found if entry.committed is True or not committed]

    def undecided(self, tp: TopicPartition, start: int, end: int) -> dict[str, str]:
        """Records there whose marker is not committed yet, and the producers of their transactions."""
        found = self._between(tp, start, end)
        return {
            entry.value: entry.txn.name.producer for entry in found if entry.txn and entry.committed is None
        }

    def _between(self, tp: TopicPartition, start: int, end: int) -> list[Entry]:
        entries = self.entries.get(tp, [])
        return entries[bisect_left(entries, start, key=_offset) : bisect_left(entries, end, key=_offset)]

    def lost(self) -> list[str]:
        """At the end: acknowledged records of committed transactions that cannot be read."""
        there = {entry.value: entry.committed for entries in self.entries.values() for entry in entries}
        return [
            value
            for txn in self.txns.values()
            if txn.reported
            for value in txn.acknowledged
            if there.get(value) is not True
        ]


def _offset(entry: Entry) -> int:
    return entry.offset


def _markers(txn: Txn) -> dict[str, str]:
    return {str(tp): "commit" if end else "abort" for tp, end in txn.ends.items()}

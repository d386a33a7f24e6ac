"""What producers said and what the logs of ordinary topics hold: exactly once, all or nothing, never from a zombie.

Every record of a simulated producer carries a name: `<producer>/<life>/<transaction>/<number>`; a transaction is
the first three. So whoever sees a record knows in which transaction it was sent, however it got where it is.

Rules, in the numbering of the invariants (docs/SIMULATION.md):

- T1 a record stands in the log once; an acknowledged one stands where its producer was told;
- T3 once a producer was told its new epoch, nothing of an older epoch is appended. Which of two processes is the
  newer one is for the coordinator to say: an earlier life may have asked again later;
- T4 all partitions of a transaction end alike, and as the producer was told; nobody's records are committed who
  did not ask for it; readers of committed records see exactly the records of committed transactions;
- T6 what one marker ends was sent in one transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.records.record import Record
from ottla.testing.sim.kernel import Kernel


class TxnName(NamedTuple):
    producer: str
    life: int
    number: int

    def __str__(self) -> str:
        return f"{self.producer}/{self.life}/{self.number}"


class Epoch(NamedTuple):
    """Under which a producer writes. Ids are given out in rising order, so these order themselves."""

    producer_id: int
    producer_epoch: int


class Txn:
    """A transaction as its producer and the logs tell it."""

    __slots__ = ("acknowledged", "asked", "ends", "name", "never_alone", "told")

    def __init__(self, name: TxnName) -> None:
        self.name = name
        self.asked: set[bool] = set()  # which ends its producer has asked for: commit, abort
        self.told: bool | None = None  # the end its producer was told
        self.ends: dict[TopicPartition, bool] = {}  # the markers
        self.acknowledged: dict[str, TopicPartition] = {}  # records its producer was told to be written
        self.never_alone = False  # prepared: only somebody who asks may end it


class Entry:
    """A record in a log."""

    __slots__ = ("committed", "offset", "txn", "value")

    def __init__(self, offset: int, value: str, txn: Txn | None) -> None:
        self.offset = offset
        self.value = value
        self.txn = txn
        self.committed: bool | None = None if txn else True


class TxnLedger:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.txns: dict[TxnName, Txn] = {}
        self.entries: dict[TopicPartition, list[Entry]] = {}
        self._seen: dict[str, str] = {}
        self._open: dict[tuple[TopicPartition, int], list[Entry]] = {}
        # Per producer: the newest epoch that was told, and where logs ended then.
        self._fences: dict[str, tuple[Epoch, dict[TopicPartition, int]]] = {}

    # What producers say

    def begin(self, name: TxnName) -> Txn:
        txn = self.txns[name] = Txn(name)
        return txn

    def initialising(self, producer: str) -> None:
        """A producer asks for an epoch, and thereby that whatever it has open is aborted."""
        for txn in self.txns.values():
            if txn.name.producer == producer and txn.told is None:
                txn.asked.add(False)

    def initialised(self, producer: str, epoch: Epoch, log_ends: dict[TopicPartition, int]) -> None:
        """A producer was told its epoch: nothing of older ones is written beyond where the logs end now."""
        newest = self._fences.get(producer)
        if newest is None or newest[0] < epoch:
            self._fences[producer] = (epoch, log_ends)

    def acknowledged(
        self, txn: Txn | None, place: TopicPartition, base_offset: int, values: list[str]
    ) -> None:
        """A producer was told that its records stand at these offsets."""
        found = [value for _, value in self.visible(place, base_offset, base_offset + len(values))]
        self._kernel.check(
            found == values,
            "R1 T1 acknowledged records are in the log, where the producer was told",
            f"{place} at {base_offset}: {found}, not {values}",
        )
        if txn is not None:
            txn.acknowledged.update(dict.fromkeys(values, place))

    def ended(self, txn: Txn, *, committed: bool) -> None:
        """A producer was told how its transaction ended."""
        if txn.told not in (None, committed):
            self._kernel.violated(
                "T4 a transaction ends once", f"{txn.name} told {txn.told}, then {committed}"
            )
        txn.told = committed
        self._check_ends(txn)

    # What logs hold

    def data(self, place: TopicPartition, header: BatchHeader, records: list[Record]) -> None:
        for record in records:
            value = (record.value or b"").decode()
            txn = self._txn_of(value) if header.is_transactional else None
            entry = Entry(header.base_offset + record.offset_delta, value, txn)
            where = f"{place} at {entry.offset}"
            first = self._seen.setdefault(value, where)
            self._kernel.check(first is where, "T1 a record is written once", f"{value}: {first}, {where}")
            self.entries.setdefault(place, []).append(entry)
            if txn is not None:
                self._opened(place, header, entry, txn)

    def _opened(self, place: TopicPartition, header: BatchHeader, entry: Entry, txn: Txn) -> None:
        open_entries = self._open.setdefault((place, header.producer_id), [])
        if open_entries and open_entries[0].txn is not txn:
            before = open_entries[0].txn
            self._kernel.violated(
                "T6 nothing of one transaction lands in another",
                f"{place}: {entry.value} while {before.name if before else None} is open",
            )
        open_entries.append(entry)
        fence = self._fences.get(txn.name.producer)
        epoch = Epoch(header.producer_id, header.producer_epoch)
        if fence is not None and epoch < fence[0] and entry.offset >= fence[1].get(place, 0):
            self._kernel.violated(
                "T3 a fenced producer writes nothing",
                f"{place} at {entry.offset}: {entry.value} under {epoch}, {fence[0]} was told at {fence[1]}",
            )

    def marker(self, place: TopicPartition, header: BatchHeader, *, committed: bool) -> None:
        entries = self._open.pop((place, header.producer_id), [])
        for entry in entries:
            entry.committed = committed
        if entries and entries[0].txn is not None:
            self.marked(entries[0].txn, place, committed=committed)

    def marked(self, txn: Txn, place: TopicPartition, *, committed: bool) -> None:
        """A marker ended a transaction in one partition."""
        self._kernel.count("markers")
        before = txn.ends.setdefault(place, committed)
        self._kernel.check(
            before == committed, "T4 a transaction ends once", f"{txn.name} in {place}: {before}, {committed}"
        )
        self._check_ends(txn)

    def _check_ends(self, txn: Txn) -> None:
        ends = set(txn.ends.values())
        story = f"{txn.name}: markers {_told(txn)}, asked for {txn.asked}, told {txn.told}"
        check = self._kernel.check
        check(len(ends) <= 1, "T4 a transaction ends alike in all partitions", story)
        check(txn.told is None or not ends or ends == {txn.told}, "T4 a transaction ends as was told", story)
        check(True not in ends or True in txn.asked, "T4 only who asks for it is committed", story)
        check(
            not txn.never_alone or False not in ends or False in txn.asked,
            "T5 a prepared transaction is not ended by the clock",
            story,
        )

    def _txn_of(self, value: str) -> Txn:
        producer, life, number, _ = value.split("/")
        name = TxnName(producer, int(life), int(number))
        return self.txns.get(name) or self.begin(name)

    # What readers see

    def visible(
        self, place: TopicPartition, start: int, end: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        """What a reader must see of the offsets from `start` to before `end`."""
        entries = self.entries.get(place, [])
        first = bisect_left(entries, start, key=_offset)
        return [
            (entry.offset, entry.value)
            for entry in entries[first : bisect_left(entries, end, key=_offset)]
            if entry.committed is True or not committed
        ]

    def lost(self) -> list[str]:
        """At the end: acknowledged records of transactions that were told to be committed, but are not."""
        there = {entry.value: entry.committed for entries in self.entries.values() for entry in entries}
        return [
            value
            for txn in self.txns.values()
            if txn.told
            for value in txn.acknowledged
            if there.get(value) is not True
        ]


def _offset(entry: Entry) -> int:
    return entry.offset


def _told(txn: Txn) -> dict[str, str]:
    return {str(place): "commit" if end else "abort" for place, end in txn.ends.items()}

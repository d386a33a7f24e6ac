"""Checker of committed offsets: what members commit and fetch, and what `__consumer_offsets` contains.

Every commit of the simulation has a unique name in its metadata, so that a record in the log can be traced to its
member and generation, and to whether the member had abandoned the commit. The checker replays the log as it is
committed, including transactions, and computes from that which offsets a request may return.

Rules:

- G3 a commit of an old generation is not appended once a newer generation is in the log;
- G4 an acknowledged commit is in the log; a fetched offset was the committed one at some time between request and
  response; it never decreases, except by a commit that its member had abandoned (a late message, as in Kafka);
- G6 no member commits what the group has not processed;
- T7 offsets of a transaction are visible if and only if it is committed, and a request for stable offsets waits.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, cast

from ottla.base.ids import TopicPartition
from ottla.coordinator.group import records as keys
from ottla.coordinator.runtime.codec import RecordTable
from ottla.records.batch import BatchHeader
from ottla.records.record import Record
from ottla.testing.sim.checkers.groups import GroupChecker
from ottla.testing.sim.checkers.transactions import TransactionChecker, Txn
from ottla.testing.sim.kernel.events import Kernel

NO_OFFSET = -1
_TABLE = RecordTable(vars(keys).values())


class Slot(NamedTuple):
    """A group and a partition: what offsets are committed for."""

    group: str
    tp: TopicPartition


class Commit:
    """One commit as its member requested it."""

    __slots__ = ("abandoned_us", "generation", "member", "offset", "slot", "txn")

    def __init__(self, slot: Slot, offset: int, member: str, generation: int, txn: Txn | None = None) -> None:
        self.slot = slot
        self.offset = offset
        self.member = member
        self.generation = generation
        self.txn = txn
        self.abandoned_us: int | None = None


class _History:
    """Committed offset of one slot over time."""

    __slots__ = ("offsets", "times_us", "unstable_from_us")

    def __init__(self) -> None:
        self.times_us = [0]
        self.offsets = [NO_OFFSET]
        self.unstable_from_us: dict[int, int] = {}  # producer id -> since when its commit is pending

    def at(self, from_us: int, to_us: int) -> set[int]:
        """All values in a period of time."""
        first = bisect_right(self.times_us, from_us) - 1
        last = bisect_right(self.times_us, to_us)
        return set(self.offsets[first:last])


class OffsetChecker:
    """Committed offsets of all groups, replayed from the log and compared with what members report."""

    def __init__(self, kernel: Kernel, txns: TransactionChecker, groups: GroupChecker) -> None:
        self._kernel = kernel
        self._groups = groups
        self._txns = txns
        self.commits: dict[str, Commit] = {}
        self.processed: dict[Slot, int] = {}
        """The offset up to which a group has processed a partition without a gap."""
        self._applied: set[str] = set()
        self._histories: dict[Slot, _History] = {}
        self._pending: dict[tuple[TopicPartition, int], dict[Slot, tuple[int, str]]] = {}

    # What members report

    def requested(self, name: str, commit: Commit) -> None:
        self.commits[name] = commit

    def abandoned(self, name: str) -> None:
        commit = self.commits[name]
        if commit.abandoned_us is None:
            commit.abandoned_us = self._kernel.now_us

    def acknowledged(self, name: str) -> None:
        self._kernel.count("offset commits")
        self._kernel.check(
            name in self._applied or self.commits[name].txn is not None,
            "G4 an acknowledged commit is in the log",
            f"{name}: {self.commits[name].slot} at {self.commits[name].offset}",
        )

    def fetched(self, slot: Slot, offset: int, from_us: int, *, stable: bool) -> None:
        """A member received the committed offset in response to a request that it sent at `from_us`."""
        history = self._history(slot)
        possible = history.at(from_us, self._kernel.now_us)
        self._kernel.check(
            offset in possible,
            "G4 a fetched offset is the committed one",
            f"{slot}: {offset}, the committed ones were {sorted(possible)}",
        )
        if stable:
            waiting = [since for since in history.unstable_from_us.values() if since < from_us]
            self._kernel.check(
                not waiting, "T7 a read of stable offsets waits for open transactions", f"{slot}: {offset}"
            )

    def committed(self, slot: Slot) -> int:
        return self._history(slot).offsets[-1]

    def table(self) -> dict[Slot, int]:
        return {slot: history.offsets[-1] for slot, history in self._histories.items()}

    # What the log contains

    def data(self, tp: TopicPartition, header: BatchHeader, records: list[Record]) -> None:
        for record in records:
            found = _TABLE.decode(record.key, record.value)
            if found is None:
                self._kernel.violated("all records of groups can be decoded", f"{record.key!r}")
            elif isinstance(found.key, keys.OffsetCommitKey):
                self._offset_record(tp, header, found.key, cast(keys.OffsetCommitValue | None, found.value))
            else:
                self._groups.replay(found.key, found.value)
        self._groups.batch_ended()

    def _offset_record(
        self,
        tp: TopicPartition,
        header: BatchHeader,
        key: keys.OffsetCommitKey,
        value: keys.OffsetCommitValue | None,
    ) -> None:
        slot = Slot(key.group, TopicPartition(key.topic, key.partition))
        if value is None:
            self._set(slot, NO_OFFSET)
        elif header.is_transactional:
            pending = self._pending.setdefault((tp, header.producer_id), {})
            pending[slot] = (value.offset, value.metadata)
            self._history(slot).unstable_from_us[header.producer_id] = self._kernel.now_us
            self._check_generation(value.metadata)
        else:
            self._check_generation(value.metadata)
            self._apply(slot, value.offset, value.metadata)

    def _apply(self, slot: Slot, offset: int, name: str) -> None:
        commit = self.commits.get(name)
        detail = f"{slot}: {offset} by {name!r}"
        if commit is None or (commit.slot, commit.offset) != (slot, offset):
            self._kernel.violated("G4 every commit in the log was requested", detail)
            return
        self._applied.add(name)
        before = self.committed(slot)
        late = commit.abandoned_us is not None and commit.abandoned_us < self._kernel.now_us
        self._kernel.check(
            offset >= before or late, "G4 a committed offset does not decrease", f"{detail}, was {before}"
        )
        done = self.processed.get(slot)
        self._kernel.check(
            done is None or offset <= done,
            "G6 only processed records are committed",
            f"{detail}, processed {done}",
        )
        self._set(slot, offset)

    def _set(self, slot: Slot, offset: int) -> None:
        history = self._history(slot)
        history.times_us.append(self._kernel.now_us)
        history.offsets.append(offset)

    def _check_generation(self, name: str) -> None:
        commit = self.commits.get(name)
        if commit is None or commit.generation < 0:
            return
        reason = self._groups.reason_against(
            commit.slot.group, commit.slot.tp, commit.member, commit.generation
        )
        self._kernel.check(reason is None, "G3 commits of former owners are refused", f"{name}: {reason}")

    def marker(self, tp: TopicPartition, header: BatchHeader, *, committed: bool) -> None:
        for slot, (offset, name) in self._pending.pop((tp, header.producer_id), {}).items():
            self._history(slot).unstable_from_us.pop(header.producer_id, None)
            commit = self.commits.get(name)
            if committed:
                self._apply(slot, offset, name)
            if commit is not None and commit.txn is not None:
                self._txns.marked(commit.txn, tp, committed=committed)

    def _history(self, slot: Slot) -> _History:
        history = self._histories.get(slot)
        if history is None:
            history = self._histories[slot] = _History()
        return history

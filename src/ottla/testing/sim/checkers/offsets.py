"""What members committed and what `__consumer_offsets` holds: acknowledged commits stay, offsets do not go back.

Every commit of the simulation carries a name in its metadata, so that a record of the log leads back to who asked
for it, in which generation, and whether he had given up on it by then. The ledger replays the log as it becomes
committed, transactions included, and so knows at any time what a reader of offsets may be told.

Rules:

- G3 a commit of an old generation does not get into the log once a newer one is there;
- G4 an acknowledged commit is in the log; what is fetched was the committed offset at some time between question
  and answer; it never goes back, except by a commit that its member had given up (a late message, as in Kafka);
- G6 nobody commits what the group has not processed;
- T7 offsets of a transaction count exactly if it is committed, and a reader who asks for stable offsets waits.
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
    """What offsets are committed for."""

    group: str
    tp: TopicPartition


class Commit:
    """One commit as its member asked for it."""

    __slots__ = ("abandoned_us", "generation", "member", "offset", "slot", "txn")

    def __init__(self, slot: Slot, offset: int, member: str, generation: int, txn: Txn | None = None) -> None:
        self.slot = slot
        self.offset = offset
        self.member = member
        self.generation = generation
        self.txn = txn
        self.abandoned_us: int | None = None


class _History:
    """The committed offset of one slot over time."""

    __slots__ = ("offsets", "times_us", "unstable_from_us")

    def __init__(self) -> None:
        self.times_us = [0]
        self.offsets = [NO_OFFSET]
        self.unstable_from_us: dict[int, int] = {}  # producer id -> since when its commit waits

    def at(self, from_us: int, to_us: int) -> set[int]:
        """All values it had in a span of time."""
        first = bisect_right(self.times_us, from_us) - 1
        last = bisect_right(self.times_us, to_us)
        return set(self.offsets[first:last])


class OffsetChecker:
    def __init__(self, kernel: Kernel, txns: TransactionChecker, groups: GroupChecker) -> None:
        self._kernel = kernel
        self._groups = groups
        self._txns = txns
        self.commits: dict[str, Commit] = {}
        self.processed: dict[Slot, int] = {}
        """Up to where a group has processed a partition without a gap (of the records it could see)."""
        self._applied: set[str] = set()
        self._histories: dict[Slot, _History] = {}
        self._pending: dict[tuple[TopicPartition, int], dict[Slot, tuple[int, str]]] = {}

    # What members say

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
        """A member was told the committed offset, some time after it had asked."""
        history = self._history(slot)
        possible = history.at(from_us, self._kernel.now_us)
        self._kernel.check(
            offset in possible,
            "G4 a fetched offset is the committed one",
            f"{slot}: {offset}, committed was {sorted(possible)}",
        )
        if stable:
            waiting = [since for since in history.unstable_from_us.values() if since < from_us]
            self._kernel.check(
                not waiting, "T7 offsets of an open transaction make readers wait", f"{slot}: {offset}"
            )

    def committed(self, slot: Slot) -> int:
        return self._history(slot).offsets[-1]

    def table(self) -> dict[Slot, int]:
        return {slot: history.offsets[-1] for slot, history in self._histories.items()}

    # What the log holds

    def data(self, tp: TopicPartition, header: BatchHeader, records: list[Record]) -> None:
        for record in records:
            found = _TABLE.decode(record.key, record.value)
            if found is None:
                self._kernel.violated("records of groups are known", f"{record.key!r}")
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
            self._kernel.violated("G4 what is committed was asked for", detail)
            return
        self._applied.add(name)
        before = self.committed(slot)
        late = commit.abandoned_us is not None and commit.abandoned_us < self._kernel.now_us
        self._kernel.check(
            offset >= before or late, "G4 a committed offset does not go back", f"{detail}, was {before}"
        )
        done = self.processed.get(slot)
        self._kernel.check(
            done is None or offset <= done,
            "G6 only what was processed is committed",
            f"{detail}, done {done}",
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
        self._kernel.check(
            reason is None, "G3 commits of who no longer owns are refused", f"{name}: {reason}"
        )

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

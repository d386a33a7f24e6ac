"""Random commits, transactions, deletions, restarts and compactions give the same offsets as a simple model.

In the model, committed offsets count in the order of the log. The log is compacted as the cleaner does it: up to the
first open transaction the last committed record of each key remains, and aborted records are removed.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.records import OffsetCommitKey, OffsetCommitValue
from ottla.coordinator.runtime.state_machine import NO_PRODUCER
from tests.support.coordination import LoggedMarker
from tests.support.group_bench import GroupBench

GROUPS = st.sampled_from(["g", "h"])
PARTITIONS = st.integers(0, 1)
PRODUCERS = st.integers(1, 3)
OFFSETS = st.integers(0, 99)
Key = tuple[str, int]


class Offsets(RuleBasedStateMachine):
    """One shard and its model."""

    @initialize()
    def begin(self) -> None:
        self.bench = GroupBench("t")

    @rule(group=GROUPS, partition=PARTITIONS, offset=OFFSETS)
    def commit(self, group: str, partition: int, offset: int) -> None:
        assert self.bench.commit(group, offset, partition=partition) is ErrorCode.NONE

    @rule(producer=PRODUCERS, group=GROUPS, partition=PARTITIONS, offset=OFFSETS)
    def commit_in_transaction(self, producer: int, group: str, partition: int, offset: int) -> None:
        code = self.bench.commit_in_transaction(producer, group, offset, partition=partition)
        assert code is ErrorCode.NONE

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        self.bench.end_transaction(producer, 0, committed=committed)

    @rule(group=GROUPS, partition=PARTITIONS)
    def delete_offset(self, group: str, partition: int) -> None:
        self.bench.delete_offset(group, partition=partition)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        self.bench.delete_group(group)

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @rule()
    def compact(self) -> None:
        """Compact the log and load it again."""
        latest: dict[str, int] = {}
        history = list(self._history())
        clean_end = min((at for at, _, _, decided in history if decided is None), default=len(self.bench.log))
        for at, key, _, decided in history:
            if at < clean_end and decided:
                latest[str(key)] = at
        gone = {
            at
            for at, key, _, decided in history
            if at < clean_end and (not decided or latest[str(key)] != at)
        }
        whole = self.bench.log
        self.bench.log = [entry for at, entry in enumerate(whole) if at not in gone]
        self.bench.restart()
        # Compaction keeps the offsets of the remaining records.
        self.bench.log = whole
        self.check()

    def _history(self) -> Any:
        """Offset records: offset, key, value, and whether they are committed (None: pending)."""
        log = self.bench.log
        for at, entry in enumerate(log):
            if isinstance(entry, LoggedMarker) or not isinstance(entry[0].key, OffsetCommitKey):
                continue
            record, stamp = entry
            decided: bool | None = True
            if stamp.producer_id != NO_PRODUCER:
                ends = (
                    later.committed
                    for later in log[at:]
                    if isinstance(later, LoggedMarker) and later.producer_id == stamp.producer_id
                )
                decided = next(ends, None)
            yield at, record.key, record.value, decided

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "bench"):
            return
        for group in ("g", "h"):
            expected = {
                ("t", partition): value for (name, partition), value in self._model().items() if name == group
            }
            assert self.bench.fetch_all(group) == expected

    def _model(self) -> dict[Key, int]:
        """The committed offsets in the order of the log. A deletion also removes pending offsets."""
        counted: dict[Key, int] = {}
        for _, key, value, decided in self._history():
            place = (key.group, key.partition)
            if value is None:
                counted.pop(place, None)
            elif decided:
                assert isinstance(value, OffsetCommitValue)
                counted[place] = value.offset
        return counted


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(max_examples=60, stateful_step_count=30)

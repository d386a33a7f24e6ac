"""The voters of a replica, as its log has them: the newest record counts, committed or not.

Derived from the log and its latest snapshot: `refresh` reads them again after every change of either, so a truncated
record of voters restores the set before it. Without such a record the voters are static: those of the settings, at
kraft.version 0.

Owned by the core.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.quorum.raft.raft_log import RaftLog
from ottla.quorum.raft.voters import ReplicaKey, VoterSet
from ottla.wire.messages.control import KRaftVersionRecord, VotersRecord
from ottla.wire.schema import Message

BEFORE_LOG: Final = -1
"""The offset of voters that are not in the log: static ones, and those of a formatted directory."""


class VotersAt(NamedTuple):
    """The voters from the record at `offset` on."""

    offset: int
    voters: VoterSet


class VoterHistory:
    """The sets of voters since the latest snapshot, oldest first, and the levels of kraft.version."""

    __slots__ = ("_levels", "_log", "_static", "sets")

    def __init__(self, static: VoterSet, log: RaftLog) -> None:
        self._static = VotersAt(BEFORE_LOG, static)
        self._log = log
        self.sets: list[VotersAt] = []
        self._levels: list[tuple[int, int]] = []
        self.refresh()

    def refresh(self) -> None:
        """Read the voters again after the log has changed."""
        snapshot = self._log.latest_snapshot()
        at = BEFORE_LOG if snapshot is None else snapshot.offset - 1
        controls = [(at, control) for control in self._log.snapshot_controls()]
        controls += [(offset, control) for offset, control in self._log.voter_records() if offset > at]
        self.sets = [
            VotersAt(offset, VoterSet.of(control))
            for offset, control in controls
            if isinstance(control, VotersRecord)
        ]
        self._levels = [
            (offset, control.kraft_version)
            for offset, control in controls
            if isinstance(control, KRaftVersionRecord)
        ]

    @property
    def last(self) -> VotersAt:
        """The voters in force."""
        return self.sets[-1] if self.sets else self._static

    @property
    def kraft_version(self) -> int:
        """1 if the voters are in the log and can be changed, 0 if they are static."""
        return self._levels[-1][1] if self._levels else 0

    def is_leaving(self, replica: ReplicaKey, high_watermark: int) -> bool:
        """Whether this replica was removed by a record that is not known to be committed."""
        last = self.last.voters
        removed_at = self.last.offset
        for at, voters in reversed(self.sets[:-1]):
            if voters.keys != last.keys:
                return removed_at >= high_watermark and replica in voters and replica not in last
            removed_at = at
        return False

    def controls_at(self, offset: int) -> list[Message]:
        """The control records of a snapshot whose last record is at `offset`; none if the voters are static."""
        levels = [level for at, level in self._levels if at <= offset]
        sets = [each.voters for each in self.sets if each.offset <= offset]
        if not levels or not sets:
            return []
        return [KRaftVersionRecord(kraft_version=levels[-1]), sets[-1].record()]

"""The recovery of a voter that has lost its log: when it may vote again without harm to committed records.

The voter may have acknowledged records and given votes that it no longer knows. So it gives no vote and is no candidate
until both of these hold:

- A majority of the voters, not counting itself, has reported an epoch since it started. Any earlier election or commit
  in which it took part involved one of them, so its own epoch is then at least as high as any leader's it voted for.
- It follows a leader of that epoch or a later one, and its log has everything up to a high watermark of the leader that
  covers a record of the leader's epoch. All records that were committed before are below that: those of earlier epochs
  because of this record, and those of the leader's epoch, which this voter may have acknowledged before it lost them,
  because the leader has reported its high watermark since then.

Owned by the core of a recovering voter.
"""

from __future__ import annotations

from ottla.quorum.raft.raft_log import RaftLog
from ottla.quorum.raft.voters import VoterSet


class Recovery:
    """The progress of one recovering voter since its start."""

    __slots__ = ("_leader_watermark", "_reported")

    def __init__(self) -> None:
        self._reported: set[int] = set()
        self._leader_watermark = 0

    def reported(self, node_id: int) -> None:
        """A voter has responded; the core has taken over its epoch."""
        self._reported.add(node_id)

    def leader_committed(self, high_watermark: int) -> None:
        """A leader has reported its high watermark, which may be above the end of this log."""
        self._leader_watermark = max(self._leader_watermark, high_watermark)

    def missing(self, other_ids: list[int]) -> list[int]:
        """The voters that have not reported."""
        return [node_id for node_id in other_ids if node_id not in self._reported]

    def is_complete(self, voters: VoterSet, log: RaftLog, epoch: int, high_watermark: int) -> bool:
        """Whether this voter, which follows the leader of `epoch`, may vote again."""
        if not voters.has_majority(self._reported) or log.durable_offset < log.end_offset:
            return False
        if high_watermark < self._leader_watermark:
            return False
        return log.last_epoch == epoch and high_watermark > _start_of(log, epoch)


def _start_of(log: RaftLog, epoch: int) -> int:
    """The offset of the first record of `epoch`, or of the last one if only a snapshot contains it."""
    snapshot = log.latest_snapshot()
    if snapshot is not None and snapshot.epoch == epoch:
        return snapshot.offset - 1
    return log.end_of_epoch(epoch - 1).offset

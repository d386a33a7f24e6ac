"""The follower's side of replication: what to fetch next, and what a response changes in the log.

A follower fetches again only when all records that it has appended are on stable storage, because the leader counts
records below a fetch offset as stored. It truncates only when a response of the leader has a diverging epoch, and
never below the high watermark.

Owned by the core for as long as this replica follows one leader in one epoch.
"""

from __future__ import annotations

import math

from ottla.base.errors import invariant
from ottla.quorum.raft.messages import (
    UNKNOWN_OFFSET,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
)
from ottla.quorum.raft.raft_log import RaftLog
from ottla.quorum.raft.timeouts import Timeouts
from ottla.quorum.raft.voters import ReplicaKey


class Following:
    """A replica that follows `leader_id` in `epoch`."""

    __slots__ = ("_log", "_snapshot", "committed", "epoch", "has_fetched", "leader_id", "leader_suspected")

    def __init__(self, epoch: int, leader_id: int, log: RaftLog) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.has_fetched = False
        """The leader has responded to a fetch in this epoch."""
        self.leader_suspected = False
        """There is evidence that the leader has failed, and no later response of it."""
        self.committed = UNKNOWN_OFFSET
        """The high watermark of the leader in its latest response; this log may end below it."""
        self._log = log
        self._snapshot: tuple[OffsetAndEpoch, int] | None = None

    def next_request(
        self, local: ReplicaKey, high_watermark: int, max_wait_ms: int
    ) -> Fetch | FetchSnapshot | None:
        """The request to send next; None while fetched records are not on stable storage."""
        if self._snapshot is not None:
            return FetchSnapshot(local, self.epoch, *self._snapshot)
        log = self._log
        if log.durable_offset < log.end_offset:
            return None
        return Fetch(local, self.epoch, log.end_offset, log.last_epoch, high_watermark, max_wait_ms)

    def fetched(self, response: FetchResponse, high_watermark: int) -> None:
        """Apply a successful response; RemoteProtocolError if its records do not continue the log."""
        self.has_fetched = True
        self.leader_suspected = False
        self.committed = response.high_watermark
        if response.diverging is not None:
            self._truncate(response.diverging, high_watermark)
        elif response.snapshot is not None:
            self._snapshot = (response.snapshot, 0)
        elif response.records:
            self._log.append_fetched(response.records)

    def _truncate(self, diverging: OffsetAndEpoch, high_watermark: int) -> None:
        mine = self._log.end_of_epoch(diverging.epoch)
        offset = min(mine.offset, diverging.offset) if mine.epoch == diverging.epoch else mine.offset
        invariant(
            offset >= high_watermark,
            f"the leader requests truncation to {offset}, below the high watermark {high_watermark}",
        )
        self._log.truncate(offset)

    def snapshot_fetched(self, response: FetchSnapshotResponse) -> OffsetAndEpoch | None:
        """Apply a part of a snapshot; returns the snapshot if it is complete and now replaces the log."""
        if self._snapshot is None:
            return None
        snapshot, position = self._snapshot
        if response.error or response.snapshot != snapshot or response.position != position:
            self._snapshot = None
            return None
        self._log.write_snapshot_part(snapshot, position, response.data)
        position += len(response.data)
        if position < response.size:
            self._snapshot = (snapshot, position)
            return None
        self._snapshot = None
        self._log.install_snapshot(snapshot)
        return snapshot


class LeaderContact:
    """When this replica last heard of a leader, and how often in a row it has found a leader lost since.

    A connection to the leader that was closed or refused, or a response that it no longer leads, is evidence that the
    leader has failed. A follower then starts a pre-vote without waiting for its fetch timeout, one voter after another
    in the order of node ids, so that votes rarely split. Wrong evidence is harmless: voters in contact with the leader
    refuse the pre-vote. A replica that cannot vote looks for another leader. If that does not help, the replica waits
    longer each time, because the other voters may name the lost leader again.
    """

    __slots__ = ("_losses", "_since_ms")

    def __init__(self) -> None:
        self._losses = 0
        self._since_ms = math.inf

    def heard(self, now_ms: float) -> None:
        """A leader has sent a request, or this replica led until now."""
        self._since_ms = now_ms

    def responded(self, now_ms: float) -> None:
        """A leader has responded to a fetch."""
        self._losses = 0
        self._since_ms = now_ms

    def hears(self, following: Following | None, now_ms: float, timeouts: Timeouts) -> bool:
        """Whether the leader has responded within the fetch timeout, and there is no evidence against it."""
        if following is None or not following.has_fetched or following.leader_suspected:
            return False
        return self.silence_ms(now_ms) < timeouts.fetch_ms

    def silence_ms(self, now_ms: float) -> float:
        """For how many milliseconds this replica has not heard of a leader. 0 if it never has."""
        return max(0.0, now_ms - self._since_ms)

    def elected(self, now_ms: float) -> float:
        """This replica leads; for how many milliseconds it had not heard of another leader."""
        self._losses = 0
        return self.silence_ms(now_ms)

    def pause_ms(self, timeouts: Timeouts) -> float:
        """Count a loss; how long to wait before the search for another leader: not at all at first."""
        self._losses += 1
        if self._losses == 1:
            return 0.0
        return float(min(timeouts.election_ms, timeouts.retry_backoff_ms * 2 ** min(self._losses, 10)))

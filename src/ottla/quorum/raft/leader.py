"""The leader's side of replication: fetches of replicas, those that wait, and the high watermark.

A fetch names the end of the replica's log. If that position is not in this log, the response names the diverging
epoch, or the snapshot to fetch. Otherwise everything below the fetch offset is on the replica's stable storage,
which may move the high watermark. A fetch without new data waits for data, or until its deadline.

Owned by the core for as long as this replica leads one epoch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import (
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
)
from ottla.quorum.raft.progress import LeaderProgress
from ottla.quorum.raft.raft_log import RaftLog
from ottla.quorum.raft.voters import ReplicaKey, VoterSet
from ottla.wire.messages.control import LeaderChangeMessage, Voter

Completed = Iterator[tuple[Hashable, FetchResponse]]


class _Parked(NamedTuple):
    token: Hashable
    fetch: Fetch
    deadline_ms: float


class Leadership:
    """The leadership of `local` in one epoch, which starts at the current end of the log."""

    def __init__(
        self,
        local: ReplicaKey,
        epoch: int,
        log: RaftLog,
        high_watermark: int,
        now_ms: float,
        fetch_ms: float,
        silence_ms: float = 0.0,
    ) -> None:
        """`fetch_ms` is the fetch timeout.

        `silence_ms` is how long this replica had not heard of another leader when it was elected.
        """
        self.epoch = epoch
        self.fetch_ms = fetch_ms
        self.silence_ms = silence_ms
        self.high_watermark = high_watermark
        self.progress = LeaderProgress(local, log.end_offset, now_ms)
        self._notify_at_ms = now_ms
        self._local = local
        self._log = log
        self._parked: list[_Parked] = []

    def fetch(self, now_ms: float, token: Hashable, fetch: Fetch, voters: VoterSet) -> FetchResponse | None:
        """The response to a fetch of this epoch; None if the fetch waits."""
        response = self._read(now_ms, fetch, voters)
        nothing = not (response.records or response.diverging or response.snapshot)
        if nothing and fetch.high_watermark >= response.high_watermark and fetch.max_wait_ms > 0:
            self._parked.append(_Parked(token, fetch, now_ms + fetch.max_wait_ms))
            return None
        return response

    def _read(self, now_ms: float, fetch: Fetch, voters: VoterSet) -> FetchResponse:
        log = self._log
        response = FetchResponse(ErrorCode.NONE, self.epoch, self._local.node_id)
        snapshot = self._snapshot_needed(fetch.offset, fetch.last_epoch)
        if snapshot is not None:
            return response._replace(high_watermark=self.high_watermark, snapshot=snapshot)
        end = log.end_of_epoch(fetch.last_epoch)
        is_empty = fetch.offset == 0 and fetch.last_epoch == 0
        if not is_empty and (end.epoch != fetch.last_epoch or end.offset < fetch.offset):
            return response._replace(high_watermark=self.high_watermark, diverging=end)
        if fetch.replica.node_id >= 0:
            self.progress.fetched(fetch.replica, now_ms, fetch.offset, log.end_offset)
            self.advance(voters)
        return response._replace(high_watermark=self.high_watermark, records=log.read(fetch.offset))

    def _snapshot_needed(self, offset: int, last_epoch: int) -> OffsetAndEpoch | None:
        """The snapshot that a replica must fetch because the log no longer has what follows its end."""
        oldest, latest = self._log.oldest_snapshot(), self._log.latest_snapshot()
        if oldest is None or latest is None or latest.offset == 0:
            return None
        if offset == 0 or offset < self._log.start_offset or last_epoch < oldest.epoch:
            return latest
        at_start = offset == self._log.start_offset == oldest.offset
        return latest if at_start and last_epoch != oldest.epoch else None

    def advance(self, voters: VoterSet) -> bool:
        """Move the high watermark to what a majority has; True if it moved."""
        offset = self.progress.candidate_high_watermark(voters, self._log.durable_offset)
        if offset is None or offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def completed(self, now_ms: float, voters: VoterSet) -> Completed:
        """Remove the waiting fetches that get something new, with their responses."""
        parked, self._parked = self._parked, []
        for one in parked:
            if one.fetch.offset < self._log.end_offset or one.fetch.high_watermark < self.high_watermark:
                yield one.token, self._read(now_ms, one.fetch, voters)
            else:
                self._parked.append(one)

    def expired(self, now_ms: float, voters: VoterSet) -> Completed:
        """Remove the waiting fetches with a passed deadline, and return their responses."""
        due = [one for one in self._parked if one.deadline_ms <= now_ms]
        self._parked = [one for one in self._parked if one.deadline_ms > now_ms]
        for one in due:
            yield one.token, self._read(now_ms, one.fetch, voters)

    def unnotified(self, now_ms: float, voters: VoterSet) -> list[int]:
        """The voters to notify of this epoch now: those that have not fetched for half of the fetch timeout."""
        if now_ms < self._notify_at_ms:
            return []
        self._notify_at_ms = now_ms + self.fetch_ms / 2
        fetched = [(voter.key.node_id, self.progress.voter(voter)) for voter in sorted(voters)]
        return [
            node_id
            for node_id, replica in fetched
            if node_id != self._local.node_id
            and (replica is None or now_ms - replica.last_fetch_ms >= self.fetch_ms / 2)
        ]

    def waiting(self) -> list[Hashable]:
        """The tokens of the fetches that wait."""
        return [one.token for one in self._parked]

    def wake_at_ms(self) -> float:
        return min([self._notify_at_ms, *(one.deadline_ms for one in self._parked)])


def leader_change(leader_id: int, voters: VoterSet, granting: Sequence[int]) -> LeaderChangeMessage:
    """The first record of an epoch."""
    return LeaderChangeMessage(
        leader_id=leader_id,
        voters=[Voter(voter_id=node_id) for node_id in voters.ids],
        granting_voters=[Voter(voter_id=node_id) for node_id in granting],
    )


def snapshot_part(
    log: RaftLog, request: FetchSnapshot, response: FetchSnapshotResponse
) -> FetchSnapshotResponse:
    """Complete a response with the requested part of a snapshot, or with an error."""
    part = log.read_snapshot(request.snapshot, request.position)
    if part is None:
        return response._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
    size, data = part
    if not 0 <= request.position < size:
        return response._replace(error=ErrorCode.POSITION_OUT_OF_RANGE)
    return response._replace(snapshot=request.snapshot, size=size, position=request.position, data=data)

"""The leader's view of its replicas: how far each has fetched, and what follows from that.

Invariants: the high watermark never moves back, and moves only over records of the leader's own epoch (Raft §5.4.2):
`candidate_high_watermark` counts an offset only above the start of the epoch.
"""

from __future__ import annotations

from typing import Final

from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet

_OBSERVER_SESSION_MS: Final = 300_000
"""How long an observer is remembered after its last fetch; Kafka's time."""


class ReplicaProgress:
    """One voter or observer, as of its last fetch. Times are those of the core; -1 means never."""

    __slots__ = ("end_offset", "key", "last_caught_up_ms", "last_fetch_leader_end", "last_fetch_ms")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset = -1
        self.last_fetch_ms = -1.0
        self.last_caught_up_ms = -1.0
        self.last_fetch_leader_end = -1

    def fetched(self, now_ms: float, offset: int, leader_end: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif offset >= self.last_fetch_leader_end >= 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.last_fetch_leader_end = leader_end


class LeaderProgress:
    """The progress of the replicas of one leader in one epoch."""

    def __init__(self, local: ReplicaKey, epoch_start: int, now_ms: float) -> None:
        self.epoch_start = epoch_start
        self._local = local
        self._since_ms = now_ms
        self._replicas: dict[ReplicaKey, ReplicaProgress] = {}
        self._contacts: dict[ReplicaKey, float] = {}

    def fetched(self, key: ReplicaKey, now_ms: float, offset: int, leader_end: int) -> None:
        """A replica fetches from `offset` on, so it has everything below on stable storage."""
        replica = self._replicas.get(key)
        if replica is None:
            replica = self._replicas[key] = ReplicaProgress(key)
        replica.fetched(now_ms, offset, leader_end)

    def contacted(self, key: ReplicaKey, now_ms: float) -> None:
        """A voter fetches a snapshot: it follows this leader, and has nothing of the log yet."""
        self._contacts[key] = now_ms

    def forget_inactive(self, voters: VoterSet, now_ms: float) -> None:
        """Forget the observers that have not fetched for too long."""
        self._replicas = {
            key: replica
            for key, replica in self._replicas.items()
            if key in voters or now_ms - replica.last_fetch_ms < _OBSERVER_SESSION_MS
        }

    def voter(self, voter: Voter) -> ReplicaProgress | None:
        """The latest replica that is this voter and has fetched in this epoch."""
        found = [one for one in self._replicas.values() if voter.has(one.key)]
        return max(found, key=lambda one: one.last_fetch_ms, default=None)

    def is_caught_up(self, key: ReplicaKey, now_ms: float, within_ms: float) -> bool:
        """Whether a replica has had the whole log within the last milliseconds."""
        replica = self._replicas.get(key)
        return replica is not None and replica.last_caught_up_ms >= max(0.0, now_ms - within_ms)

    @property
    def replicas(self) -> list[ReplicaProgress]:
        return list(self._replicas.values())

    def candidate_high_watermark(self, voters: VoterSet, durable_offset: int) -> int | None:
        """The offset that a majority of the voters has reached; None while it is not in this epoch."""

        def end_of(voter: Voter) -> float:
            if voter.has(self._local):
                return durable_offset
            replica = self.voter(voter)
            return -1 if replica is None else replica.end_offset

        offset = int(voters.majority_value(end_of))
        return offset if offset > self.epoch_start else None

    def majority_contact_ms(self, voters: VoterSet, now_ms: float) -> float:
        """The latest time at which a majority of the voters, the leader included if it is one, had fetched."""

        def contact_of(voter: Voter) -> float:
            if voter.has(self._local):
                return now_ms
            replica = self.voter(voter)
            fetched_ms = self._since_ms if replica is None else replica.last_fetch_ms
            return max(fetched_ms, self._contacts.get(voter.key, self._since_ms))

        return voters.majority_value(contact_of)

    def successors(self, voters: VoterSet) -> tuple[ReplicaKey, ...]:
        """The other voters, those with the longest logs first."""
        others = [voter for voter in voters if not voter.has(self._local)]

        def end_of(voter: Voter) -> tuple[int, int]:
            replica = self.voter(voter)
            return (-replica.end_offset if replica else 1, voter.key.node_id)

        return tuple(voter.key for voter in sorted(others, key=end_of))

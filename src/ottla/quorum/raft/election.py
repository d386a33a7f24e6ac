"""One election, or one pre-vote: its requests, and the votes counted so far."""

from __future__ import annotations

from ottla.quorum.raft.messages import Vote
from ottla.quorum.raft.voters import VoterSet


class Election:
    """The votes for one nominee in one epoch."""

    __slots__ = ("_rejected", "granted")

    def __init__(self) -> None:
        self.granted: set[int] = set()
        self._rejected: set[int] = set()

    def count(self, node_id: int, *, granted: bool) -> None:
        (self.granted if granted else self._rejected).add(node_id)

    def open_votes(self, voters: VoterSet) -> list[int]:
        """The voters that have not decided, in the order of their ids; none once the election is lost."""
        if self.lost(voters):
            return []
        return [node_id for node_id in voters.ids if node_id not in self.granted | self._rejected]

    def won(self, voters: VoterSet) -> bool:
        return voters.has_majority(self.granted)

    def lost(self, voters: VoterSet) -> bool:
        """Whether the voters that have not rejected can no longer form a majority."""
        return len(self._rejected) > len(voters) - voters.majority


def is_valid(vote: Vote) -> bool:
    """Whether the fields fit together: only a pre-vote is made in the epoch of the last record."""
    last_epoch_max = vote.epoch if vote.pre_vote else vote.epoch - 1
    return vote.last.offset >= 0 and 0 <= vote.last.epoch <= last_epoch_max

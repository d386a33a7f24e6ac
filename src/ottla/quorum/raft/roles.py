"""The roles of a quorum replica and the transitions between them, as in Apache Kafka's KRaft.

An observer is only ever unattached or a follower. A voter that was removed is an observer when that is committed.
`docs/STATE_MACHINES.md` is drawn from `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Role(Enum):
    """The role of one replica in its current epoch."""

    UNATTACHED = "Unattached"
    """Knows an epoch, but no leader of it. It may have voted in this epoch."""
    PROSPECTIVE = "Prospective"
    """Asks the voters whether they would vote for it (pre-vote). The epoch is not raised."""
    CANDIDATE = "Candidate"
    """Voted for itself in a new epoch and requests the votes of the others."""
    LEADER = "Leader"
    FOLLOWER = "Follower"
    """Fetches from the leader of its epoch."""
    RESIGNED = "Resigned"
    """Led this epoch and gave up its leadership."""


TRANSITIONS: Final[Mapping[Role, Mapping[Role, str]]] = {
    Role.UNATTACHED: {
        Role.UNATTACHED: "higher epoch, or vote given",
        Role.PROSPECTIVE: "election timeout",
        Role.FOLLOWER: "leader found",
    },
    Role.PROSPECTIVE: {
        Role.UNATTACHED: "higher epoch, or pre-vote lost",
        Role.PROSPECTIVE: "vote given",
        Role.CANDIDATE: "pre-vote won",
        Role.FOLLOWER: "leader found, or pre-vote lost",
    },
    Role.CANDIDATE: {
        Role.UNATTACHED: "higher epoch",
        Role.PROSPECTIVE: "election lost or timed out",
        Role.LEADER: "election won",
        Role.FOLLOWER: "leader found",
    },
    Role.LEADER: {
        Role.UNATTACHED: "higher epoch",
        Role.FOLLOWER: "leader of a higher epoch found",
        Role.RESIGNED: "shutdown, no majority fetches, or no voter any more",
    },
    Role.FOLLOWER: {
        Role.UNATTACHED: "higher epoch, or leader lost (no voter)",
        Role.PROSPECTIVE: "fetch timeout, or leader lost",
        Role.FOLLOWER: "leader of a higher epoch found",
    },
    Role.RESIGNED: {
        Role.UNATTACHED: "higher epoch, or election timeout",
        Role.FOLLOWER: "leader of a higher epoch found",
    },
}

"""What the core exchanges with other replicas and with its driver: requests, responses and effects.

Requests and responses carry the fields of Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot
that matter to the protocol; `wire` translates. A driver executes effects in their order. `Persist` is a barrier:
no effect after it may be executed before the state is durable.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet

NO_LEADER = -1
UNKNOWN_OFFSET = -1
EPOCH_MAX = 2**31 - 1
"""The largest epoch that the messages can carry. No election begins in it."""


class OffsetAndEpoch(NamedTuple):
    """A position in the log, or the id of a snapshot. Compared by epoch first, as votes are."""

    offset: int
    epoch: int


class Vote(NamedTuple):
    """A request for the vote of `voter`, by a candidate or a prospective candidate."""

    candidate: ReplicaKey
    voter: ReplicaKey
    epoch: int
    last: OffsetAndEpoch
    """The end offset of the candidate's log, and the epoch of its last record."""
    pre_vote: bool


class VoteResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    granted: bool = False


class BeginEpoch(NamedTuple):
    """A new leader announces itself to `voter`."""

    leader_id: int
    voter: ReplicaKey
    epoch: int


class BeginEpochResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int


class EndEpoch(NamedTuple):
    """A leader resigns; the successors are ordered by how much of the log they have."""

    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]


class EndEpochResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int


class Fetch(NamedTuple):
    """A replica fetches the log from `offset` on. It has everything below `offset` on stable storage."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    """The epoch of the replica's last record."""
    high_watermark: int
    max_wait_ms: int


class FetchResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    high_watermark: int = UNKNOWN_OFFSET
    records: bytes = b""
    diverging: OffsetAndEpoch | None = None
    """The replica must truncate its log to the last position it shares with this epoch and end offset."""
    snapshot: OffsetAndEpoch | None = None
    """The replica must fetch this snapshot first."""


class FetchSnapshot(NamedTuple):
    """A replica fetches the bytes of a snapshot from `position` on."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int


class FetchSnapshotResponse(NamedTuple):
    error: ErrorCode
    epoch: int
    leader_id: int
    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    data: bytes = b""


Request = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
Response = VoteResponse | BeginEpochResponse | EndEpochResponse | FetchResponse | FetchSnapshotResponse


class ElectionState(NamedTuple):
    """The durable state of a replica: its epoch, the leader of it if known, and its vote in it."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None


class Persist(NamedTuple):
    """Write the election state and sync it; the effects that follow wait for that."""

    state: ElectionState


class Send(NamedTuple):
    """Send a request to a node. Its response, or its failure, is reported to the core."""

    node_id: int
    request: Request


class Respond(NamedTuple):
    """Send the response to the request that was received with this token."""

    token: Hashable
    response: Response


class Committed(NamedTuple):
    """Records below this offset are committed and may be delivered."""

    high_watermark: int


class LeaderChanged(NamedTuple):
    """Another epoch or another leader; `start_offset` is where the epoch starts if this node leads it."""

    epoch: int
    leader_id: int
    start_offset: int = UNKNOWN_OFFSET


class SnapshotInstalled(NamedTuple):
    """The log was replaced by a snapshot that the leader sent."""

    snapshot: OffsetAndEpoch


class Recovered(NamedTuple):
    """A voter that had lost its log has it again and may vote."""


class ProbeVoter(NamedTuple):
    """Request the supported versions of a node that is to become a voter; reported to `VoterChanges.probed`."""

    voter: Voter


class Changed(NamedTuple):
    """The response to a request to change the voters that was made with this token."""

    token: Hashable
    error: ErrorCode
    message: str


class VotersChanged(NamedTuple):
    """Another set of voters is in force; it may be uncommitted."""

    voters: VoterSet


Effect = (
    Persist
    | Send
    | Respond
    | Committed
    | LeaderChanged
    | SnapshotInstalled
    | Recovered
    | ProbeVoter
    | Changed
    | VotersChanged
)

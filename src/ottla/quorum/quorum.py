"""The metadata quorum as the rest of a node uses it: the port `Quorum` and the listeners that it notifies.

A node holds one replica of the metadata log. The port has three sides:

- Leader: `append(epoch, values)`. It returns the offset at once; the commit is reported later by `committed`.
- Every replica: `CommitListener` receives snapshots and committed batches, in the order of the log.
- Every replica: `LeadershipListener` is notified when this node gains or loses leadership, or when its log fails.

Record values are opaque here; `ottla.metadata` defines their content. All calls in both directions are made on
the event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.base.errors import ErrorCode, OttlaError
from ottla.base.promise import Promise


class NotLeader(OttlaError):
    """An append in an epoch in which this node does not lead, or no longer leads."""


class CommittedBatch(NamedTuple):
    """One committed batch: its record values. A control batch has none."""

    last_offset: int
    epoch: int
    timestamp_ms: int
    values: list[bytes]


class CommittedSnapshot(NamedTuple):
    """The committed state up to and including `last_offset`, as record values."""

    last_offset: int
    epoch: int
    values: Iterable[bytes]


class ListenerAddress(NamedTuple):
    """The address of a controller's listener, as other nodes reach it."""

    name: str
    host: str
    port: int


class VoterChange(NamedTuple):
    """A voter that is added or updated."""

    node_id: int
    directory_id: uuid.UUID
    listeners: tuple[ListenerAddress, ...]
    kraft_versions: tuple[int, int] = (0, 0)


class ChangeResult(NamedTuple):
    """What became of a change of the voters; no error means that it is done."""

    error: ErrorCode
    message: str = ""


class ReplicaStatus(NamedTuple):
    """The progress of one voter or observer, as known to the leader."""

    node_id: int
    directory_id: uuid.UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    listeners: tuple[ListenerAddress, ...]


class QuorumStatus(NamedTuple):
    """The state of the quorum, for DescribeQuorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaStatus, ...]
    observers: tuple[ReplicaStatus, ...] = ()


class CommitListener(Protocol):
    """Receives the committed log of this replica, on a leader and on a follower alike.

    An exception from either method means that this node cannot apply committed records. During `Quorum.start`
    it is raised to the caller. Later it stops the replica, as a failed log does.
    """

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        """Apply batches that follow directly after the last batch or snapshot delivered."""
        ...

    def load_snapshot(self, snapshot: CommittedSnapshot) -> None:
        """Replace the whole state: the first call after the start, or a follower that fell too far behind."""
        ...


class LeadershipListener(Protocol):
    """Is notified of the role of this replica. Epochs increase; each `leading` is followed by one `resigned`."""

    def leading(self, epoch: int) -> None:
        """This node leads; everything before the first batch of `epoch`, and that batch, has been delivered."""
        ...

    def resigned(self, epoch: int) -> None:
        """This node no longer leads `epoch`. Appends that are not committed yet may or may not be kept."""
        ...

    def failed(self, error: BaseException) -> None:
        """The local log failed: nothing is appended or committed here any more. `resigned` follows if it led."""
        ...


class Quorum(Protocol):
    """One replica of the metadata log."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record, counting appends that are not written yet."""
        ...

    @property
    def kraft_version(self) -> int:
        """The finalized level of the feature kraft.version, which control records carry."""
        ...

    @property
    def silence_ms(self) -> float:
        """How long this node had not heard of another leader when it was elected; 0 if it does not lead."""
        ...

    def start(self, commits: CommitListener, leadership: LeadershipListener) -> None:
        """Deliver the committed records, then join the quorum."""
        ...

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Append records that are committed all or none, and return the offset of the last.

        Several appends may be outstanding; they are committed in order. Appends of one iteration of the event loop,
        and those made during a write, share the next write. Raises NotLeader for any other epoch
        than the one this node leads.
        """
        ...

    @property
    def snapshot_due(self) -> bool:
        """True when enough has been committed since the latest snapshot and none is being written."""
        ...

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        """Start to write a snapshot of the state after `last_offset`.

        `values` is iterated in a worker thread, so it must not change. When the snapshot is durable, log segments
        and snapshots that are no longer needed are deleted.
        """
        ...

    def describe(self) -> QuorumStatus:
        """The state of the quorum on this replica."""
        ...

    def add_voter(
        self, voter: VoterChange, timeout_ms: int, *, wait_for_commit: bool
    ) -> Promise[ChangeResult]:
        """Add a voter, if this node leads. Waits until the new voter has caught up."""
        ...

    def remove_voter(self, node_id: int, directory_id: uuid.UUID) -> Promise[ChangeResult]:
        """Remove a voter, if this node leads; the result is that of the commit."""
        ...

    def update_voter(self, voter: VoterChange) -> Promise[ChangeResult]:
        """Replace the addresses of a voter, if this node leads."""
        ...

"""What the rest of the broker sees of the metadata quorum, however many nodes it has.

Records are opaque values here; what they mean is `ottla.metadata`'s business. The leader appends a decision
as one batch, which is committed as a whole or not at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol


class CommittedBatch(NamedTuple):
    """One batch of the log, or of a snapshot: record values without control records."""

    last_offset: int
    epoch: int
    timestamp_ms: int
    values: list[bytes]


class Appended(NamedTuple):
    """Where a decision went."""

    last_offset: int
    epoch: int


class ListenerAddress(NamedTuple):
    """A controller's listener, as other nodes reach it."""

    name: str
    host: str
    port: int


class ReplicaStatus(NamedTuple):
    """One voter or observer as the leader sees it."""

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


AppendDone = Callable[[Appended | BaseException], None]


class Quorum(Protocol):
    """The leader's side of the quorum."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def kraft_version(self) -> int: ...

    def lead(self, done: AppendDone) -> None:
        """Begin a new epoch; the rest can be used once `done` is called with where it begins."""
        ...

    def load(self) -> Iterator[CommittedBatch]:
        """Everything committed, the latest snapshot first."""
        ...

    def append(self, values: Sequence[bytes], done: AppendDone) -> None:
        """Append one batch; `done` is called once, when it is committed or when the log has failed."""
        ...

    @property
    def snapshot_due(self) -> bool:
        """True when enough was appended since the latest snapshot, and none is being written."""
        ...

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        """Start to write the state after `last_offset` down; older log and snapshots go when it is safe."""
        ...

    def describe(self) -> QuorumStatus: ...

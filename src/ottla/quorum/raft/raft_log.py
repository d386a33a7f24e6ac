"""The log as the core uses it: offsets, epochs, staged appends, truncation and snapshots.

Calls change the offsets at once. Bytes reach the disk later, in the order of the calls; the driver reports
progress with `Core.durable`. Two implementations exist: the driver's over a storage log, and the simulation's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.wire.schema import Message


class RaftLog(Protocol):
    @property
    def start_offset(self) -> int:
        """The first offset that can be read; records below it are in a snapshot."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record, counting records that are not written yet."""
        ...

    @property
    def durable_offset(self) -> int:
        """Records below it are on stable storage."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if the log is empty; 0 for neither."""
        ...

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The greatest epoch at or below `epoch` that has records, and where it ends."""
        ...

    def append_controls(self, epoch: int, controls: Sequence[Message]) -> int:
        """Append control records as one batch; returns the new end offset."""
        ...

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Append the records of one decision as one batch; returns the new end offset."""
        ...

    def append_fetched(self, records: bytes) -> int:
        """Append batches that the leader sent; returns the new end offset.

        An incomplete last batch is ignored. RemoteProtocolError if the batches do not continue this log.
        """
        ...

    def voter_records(self) -> Sequence[tuple[int, Message]]:
        """The records of kraft.version and voters in the log, committed or not, with their offsets."""
        ...

    def snapshot_controls(self) -> Sequence[Message]:
        """The same records of the latest snapshot."""
        ...

    def read(self, offset: int) -> bytes:
        """Batches from `offset` on, committed or not; empty at the end."""
        ...

    def truncate(self, offset: int) -> None:
        """Remove the records at and above `offset`."""
        ...

    def oldest_snapshot(self) -> OffsetAndEpoch | None: ...

    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and its bytes from `position` on; None if there is no such snapshot."""
        ...

    def write_snapshot_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Write bytes of a snapshot that is being fetched."""
        ...

    def install_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Replace the log by a snapshot whose bytes are complete: the log is empty and starts at its end."""
        ...

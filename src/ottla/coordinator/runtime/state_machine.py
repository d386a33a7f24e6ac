"""The face of a coordinator's state machine towards the runtime that feeds it.

One machine follows one partition of an internal topic. It is made empty, sees every record of the log in order,
is told that it is loaded, and from then on is asked to decide. Each decision's records come back to it through
`replay` before anything else is asked.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.coordinator.runtime.decision import LogRecord
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

NO_PRODUCER = -1


class Stamp(NamedTuple):
    """Where a replayed record stands in the log, and in whose transaction (NO_PRODUCER: in none)."""

    offset: int
    timestamp_ms: int
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1


class StateMachine(Protocol):
    """State that is a function of the log, plus what lives in memory while this broker coordinates."""

    def replay(self, record: LogRecord, stamp: Stamp) -> None:
        """Take in one record. A tombstone has no value."""

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """The transaction of that producer ended in this partition."""

    def on_loaded(self, image: MetadataImage) -> None:
        """The log has been replayed to its end: set timers, begin to serve."""

    def on_unloaded(self) -> None:
        """Coordination ended here: answer who waits with NOT_COORDINATOR. Timers are already gone."""

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Topics or settings changed."""

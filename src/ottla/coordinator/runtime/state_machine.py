"""The interface between a coordinator's state machine and the runtime.

A state machine belongs to one partition of an internal topic. It starts empty, replays every record of the log in
order, is notified by `on_loaded`, and from then on decides requests. The records of each decision are replayed before
the next request is decided.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.coordinator.runtime.decision import LogRecord
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

NO_PRODUCER = -1


class Stamp(NamedTuple):
    """Position and timestamp of a replayed record, and the producer of its transaction (NO_PRODUCER: none)."""

    offset: int
    timestamp_ms: int
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1


class StateMachine(Protocol):
    """State that results from the log, plus state that exists in memory while this broker coordinates."""

    def replay(self, record: LogRecord, stamp: Stamp) -> None:
        """Apply one record. A tombstone has no value."""

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Apply a transaction marker: the transaction of that producer has ended in this partition."""

    def on_loaded(self, image: MetadataImage) -> None:
        """Called when the log has been replayed to its end: start timers and serve requests."""

    def on_unloaded(self) -> None:
        """Called when the shard closes: fail waiting requests with NOT_COORDINATOR. Timers are already cancelled."""

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called when topics or configurations have changed."""

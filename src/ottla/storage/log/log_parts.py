"""The result of recovery: the segments of a log and its state."""

from __future__ import annotations

import msgspec

from ottla.storage.index.epoch_cache import EpochCache
from ottla.storage.log.segment import Segment
from ottla.storage.producers.producer_snapshot import ProducerSnapshots
from ottla.storage.producers.producer_state import ProducerState


class LogParts(msgspec.Struct):
    """What `recovery` found on the disk.

    All of it is durable, except the indexes of `unsynced_indexes`, and everything if the log is `fresh`.
    """

    segments: list[Segment]
    epochs: EpochCache
    producers: ProducerState
    snapshots: ProducerSnapshots
    log_start_offset: int
    log_end_offset: int
    unsynced_indexes: list[Segment]
    fresh: bool
    """Whether the log is empty and nothing of it need be durable: just created, or not written since."""
    saved: bool
    """Whether the files are in the state of a clean stop."""

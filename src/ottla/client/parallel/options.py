"""What the user of a parallel consumer may choose, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ottla.base.errors import LocalError

METADATA_BYTES_MAX = 4096  # Kafka's default of offset.metadata.max.bytes
_EXPONENT_MAX = 64  # beyond it any factor has long met the cap, and a float would overflow


class Order(Enum):
    """Which records wait for each other."""

    KEY = "key"
    """Records of one key of one partition, in the order of their offsets. Records without a key wait for none."""
    PARTITION = "partition"
    """All records of a partition: one at a time from each."""
    NONE = "none"
    """No record waits for another."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a record whose handler failed is tried again: after delays that grow by a factor up to a cap.

    `attempts_max` counts the first attempt too; None means for ever.
    """

    attempts_max: int | None = 10
    delay_first_s: float = 0.1
    delay_max_s: float = 30.0
    factor: float = 2.0

    def __post_init__(self) -> None:
        _check(
            self.attempts_max is None or self.attempts_max >= 1, "attempts_max must be at least 1, or None"
        )
        _check(0 <= self.delay_first_s <= self.delay_max_s, "0 <= delay_first_s <= delay_max_s must hold")
        _check(self.factor >= 1, "factor must be at least 1")

    def is_exhausted(self, attempts: int) -> bool:
        return self.attempts_max is not None and attempts >= self.attempts_max

    def delay_s(self, attempts: int) -> float:
        """How long to wait after that many failed attempts."""
        growth: float = self.factor ** min(attempts - 1, _EXPONENT_MAX)
        return min(self.delay_max_s, self.delay_first_s * growth)


@dataclass(frozen=True, slots=True)
class Options:
    """How much at once, in which order, and what happens to records that fail."""

    workers: int = 16
    """Threads, or for a coroutine function tasks, that run the handler: as many records are handled at once."""
    order: Order = Order.KEY
    records_max: int = 10_000
    """Records held in memory at most, waiting and running together. Reading pauses before it is exceeded."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    dead_letter_topic: str | None = None
    """Where records go whose attempts are used up. Without it such a record ends `run` with `RecordFailed`."""
    commit_interval_s: float = 1.0
    handover_timeout_s: float = 10.0
    """How long a rebalance, or `stop`, waits for handlers that are running."""
    drain_timeout_s: float = 60.0
    """How long `stop(drain=True)` goes on with records that were read already."""
    metadata_bytes_max: int = METADATA_BYTES_MAX
    """The cluster's offset.metadata.max.bytes."""

    def __post_init__(self) -> None:
        _check(self.workers >= 1, "workers must be at least 1")
        _check(self.records_max >= 2, "records_max must be at least 2")
        _check(self.commit_interval_s > 0, "commit_interval_s must be above 0")
        _check(self.handover_timeout_s >= 0, "handover_timeout_s must not be negative")
        _check(self.drain_timeout_s >= 0, "drain_timeout_s must not be negative")
        _check(self.metadata_bytes_max >= 0, "metadata_bytes_max must not be negative")
        _check(self.dead_letter_topic != "", "dead_letter_topic must be a name, or None for no dead letters")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise LocalError(message)

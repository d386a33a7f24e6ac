"""Options of a parallel consumer, validated on construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ottla.base.errors import LocalError

METADATA_BYTES_MAX = 4096  # Kafka's default of offset.metadata.max.bytes
_EXPONENT_MAX = 64  # the delay has reached its maximum before, and a larger exponent would overflow


class Order(Enum):
    """Which records run one after another."""

    KEY = "key"
    """Records with the same key in a partition, in order of offsets. Records without a key wait for no other."""
    PARTITION = "partition"
    """All records of a partition, one at a time."""
    NONE = "none"
    """No record waits for another."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries of a record whose handler failed, with a delay that grows by a factor up to a maximum.

    `attempts_max` includes the first attempt; None means no limit.
    """

    attempts_max: int | None = 10
    delay_first_s: float = 0.1
    delay_max_s: float = 30.0
    factor: float = 2.0

    def __post_init__(self) -> None:
        _check(
            self.attempts_max is None or self.attempts_max >= 1, "attempts_max must be at least 1, or None"
        )
        _check(0 <= self.delay_first_s <= self.delay_max_s, "delay_first_s must be between 0 and delay_max_s")
        _check(self.factor >= 1, "factor must be at least 1")

    def is_exhausted(self, attempts: int) -> bool:
        return self.attempts_max is not None and attempts >= self.attempts_max

    def delay_s(self, attempts: int) -> float:
        """The delay after that many failed attempts."""
        growth: float = self.factor ** min(attempts - 1, _EXPONENT_MAX)
        return min(self.delay_max_s, self.delay_first_s * growth)


@dataclass(frozen=True, slots=True)
class Options:
    """Parallelism, order, limits, and the treatment of failed records."""

    workers: int = 16
    """Number of threads, or tasks for a coroutine function: the maximal number of records handled at once."""
    order: Order = Order.KEY
    records_max: int = 10_000
    """Maximal number of records in memory, waiting and running. Reading pauses before it is exceeded."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    dead_letter_topic: str | None = None
    """Topic for records without attempts left. Without it such a record ends `run` with `RecordFailed`."""
    commit_interval_s: float = 1.0
    handover_timeout_s: float = 10.0
    """How long a rebalance, or `stop`, waits for running handlers."""
    drain_timeout_s: float = 60.0
    """How long `stop(drain=True)` continues with records that were read."""
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

"""Events of a history, and the classes of anomalies, named as in the literature on databases and Kafka-like systems.

An anomaly is an observation that no correct log allows. Kafka permits that records of concurrent transactions are
interleaved in different orders in several partitions, so that write cycles of concurrent transactions, and skipped
offsets between the records of one transaction, are anomalies only if the caller requires isolated writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ottla.base.ids import TopicPartition

Value = bytes


class Kind(StrEnum):
    """Classes of anomalies. Internal ones are within one transaction."""

    LOST_WRITE = "lost write"
    """A value was acknowledged, and committed if it belongs to a transaction, but is missing from a complete read."""
    DUPLICATE = "duplicate"
    """One value is at two offsets."""
    INCONSISTENT_OFFSET = "inconsistent offset"
    """One offset has two values, between reads or between an acknowledgement and a read."""
    PHANTOM_READ = "phantom read"
    """A value was read that no producer sent."""
    ABORTED_READ = "aborted read (G1a)"
    """A value was read that was refused for certain, or whose transaction was aborted."""
    INTERMEDIATE_READ = "intermediate read (G1b)"
    """A reader of committed records has read a transaction before its commit was requested, or only a part of it."""
    CYCLIC_INFORMATION_FLOW = "cyclic information flow (G1c)"
    """Transactions have read each other's writes in a cycle, or the writes of a later transaction."""
    WRITE_CYCLE = "write cycle (G0)"
    """The writes of transactions are in an order that contradicts the order of these transactions."""
    LOST_UPDATE = "lost update"
    """Two committed transactions of a group have processed the same record: one replaced the offset of the other."""
    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A consumer went back between two assignments."""
    INTERNAL_NON_MONOTONIC_POLL = "internal non-monotonic poll"
    POLL_SKIP = "poll skip"
    """A consumer skipped a record between two assignments."""
    INTERNAL_POLL_SKIP = "internal poll skip"
    NON_MONOTONIC_SEND = "non-monotonic send"
    """Records of one producer in one partition are in another order than they were sent."""
    INTERNAL_NON_MONOTONIC_SEND = "internal non-monotonic send"
    INTERNAL_SEND_SKIP = "internal send skip"
    """Other records are between those of one transaction. An anomaly only if writes must be isolated."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An observation that no correct log allows."""

    kind: Kind
    partition: TopicPartition | None
    detail: str


@dataclass(slots=True)
class Transaction:
    """A transaction, as its producer observed it. Times are None if they are unknown."""

    name: str
    producer: str
    group: str | None
    """The group whose offsets the transaction commits."""
    began_at: float | None
    commit_requested: bool = False
    requested_at: float | None = None
    committed: bool | None = None
    """The end that was reported to the producer. None: unknown."""
    ended_at: float | None = None
    values: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Send:
    """A value that a producer sent. `number` orders all sends of one producer."""

    producer: str
    number: int
    transaction: str | None


@dataclass(slots=True)
class Read:
    """A value that a consumer read, as part of a transaction if that is not None."""

    partition: TopicPartition
    offset: int
    value: Value
    transaction: str | None
    at: float | None

"""Recording of a history: what producers sent, and what consumers read.

Producers record what they send, whether it was acknowledged or refused, and how their transactions end. Consumers
record their assignments and what they read. A record without acknowledgement or refusal (the producer timed out) may be
in the log or not, but at most once. A transaction without a reported end may be committed or aborted, but not in part.

A history belongs to one thread; merge several with `extend`. With a `clock`, which all merged histories must share, the
checker also uses the order of events of different clients: what was read before its commit was requested, and which
transaction had ended before another one began.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.ids import TopicPartition
from ottla.testing.history.events import Anomaly, Read, Send, Transaction, Value
from ottla.testing.history.log_checks import LogChecks
from ottla.testing.history.observations import Observations
from ottla.testing.history.transaction_checks import TransactionChecks


class History:
    """What the clients of one run observed. Offsets are those in the broker's responses."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._seen = Observations()

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    # Producers

    def began(self, transaction: str, producer: str, group: str | None = None) -> None:
        """Record that a producer begins a transaction, which commits the offsets of `group`, if any."""
        if transaction in self._seen.transactions:
            raise ValueError(f"{transaction} began before: names of transactions must be unique")
        self._seen.transactions[transaction] = Transaction(transaction, producer, group, self._now())

    def commit_requested(self, transaction: str) -> None:
        """Record that a producer requests the commit of a transaction. Call it before the request is sent."""
        found = self._seen.transactions[transaction]
        if not found.commit_requested:
            found.commit_requested, found.requested_at = True, self._now()

    def ended(self, transaction: str, *, committed: bool) -> None:
        """Record the end of a transaction that was reported to its producer."""
        found = self._seen.transactions[transaction]
        found.committed, found.ended_at = committed, self._now()

    def sent(self, producer: str, value: Value, transaction: str | None = None) -> None:
        """Record that a producer starts to send a value. The order of these calls must be the order in the log."""
        seen = self._seen
        if value in seen.sends:
            raise ValueError(f"{value!r} was sent before: values must be unique")
        seen.sends[value] = Send(producer, len(seen.sends), transaction)
        if transaction is not None:
            seen.transactions[transaction].values.append(value)

    def acknowledged(self, value: Value, partition: TopicPartition, offset: int) -> None:
        """Record that the broker has acknowledged a value."""
        self._seen.acknowledged[value] = (partition, offset)

    def refused(self, value: Value) -> None:
        """Record that a value is certainly not in the log, according to the response."""
        self._seen.refused.add(value)

    # Consumers

    def reads_committed(self, consumer: str) -> None:
        """Record that a consumer reads only committed records (`read_committed`)."""
        self._seen.committed_readers.add(consumer)

    def assigned(self, consumer: str) -> None:
        """Record that a consumer starts at new positions: its next read need not follow its last one."""
        self._seen.reads.setdefault(consumer, []).append(None)

    def read(
        self,
        consumer: str,
        partition: TopicPartition,
        offset: int,
        value: Value,
        transaction: str | None = None,
    ) -> None:
        """Record that a consumer has read a value, which `transaction` processes, if any."""
        read = Read(partition, offset, value, transaction, self._now())
        self._seen.reads.setdefault(consumer, []).append(read)

    # All

    def extend(self, other: History) -> None:
        """Add the events of another history. The order between two producers does not matter."""
        mine, others = self._seen, other._seen
        for name, transaction in others.transactions.items():
            if name in mine.transactions:
                raise ValueError(f"{name} is in both histories: names of transactions must be unique")
            mine.transactions[name] = transaction
        for value, send in others.sends.items():
            if value in mine.sends:
                raise ValueError(f"{value!r} was sent before: values must be unique")
            mine.sends[value] = Send(send.producer, len(mine.sends), send.transaction)
        mine.acknowledged.update(others.acknowledged)
        mine.refused.update(others.refused)
        mine.committed_readers.update(others.committed_readers)
        for consumer, reads in others.reads.items():
            mine.reads.setdefault(consumer, []).extend(reads)

    @property
    def sent_count(self) -> int:
        return len(self._seen.sends)

    @property
    def acknowledged_count(self) -> int:
        return len(self._seen.acknowledged)

    @property
    def committed_count(self) -> int:
        """The number of transactions whose commit was reported."""
        return sum(each.committed is True for each in self._seen.transactions.values())

    def anomalies(self, *, read_to_end: bool = True, isolated_writes: bool = False) -> list[Anomaly]:
        """Everything that no correct log allows.

        `read_to_end`: after all writes, some consumer has read each partition from its start to its end, so that an
        acknowledged record that no consumer has read is lost, and not just unread. Where transactions are used, a
        reader of committed records must have done so, if there is one.

        `isolated_writes`: the records of two transactions must not be interleaved. Kafka does not guarantee that.
        """
        log, found = self._seen.observed_log()
        found += LogChecks(self._seen, log).anomalies(read_to_end=read_to_end)
        found += TransactionChecks(self._seen, log).anomalies(
            read_to_end=read_to_end, isolated_writes=isolated_writes
        )
        return found

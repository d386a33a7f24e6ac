"""Metadata transactions: records between a begin and an end marker count together or not at all.

Apache Kafka writes them when one change needs more than one batch (its bootstrap records are such a case).
Our own decisions fit one batch, which is atomic already, so we only read these markers, and abort a
transaction that a stopped controller left open.
"""

from __future__ import annotations

from ottla.metadata.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from ottla.wire.schema import Message


class TransactionFilter:
    """Lets records through when they count."""

    def __init__(self) -> None:
        self._held: list[Message] | None = None

    @property
    def open(self) -> bool:
        """True inside a transaction whose end has not been seen."""
        return self._held is not None

    def admit(self, record: Message) -> list[Message]:
        """The records that count now that this one has arrived."""
        if isinstance(record, BeginTransactionRecord):
            self._held = []
            return []
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            held = self._held or []
            self._held = None
            return held if isinstance(record, EndTransactionRecord) else []
        if self._held is None:
            return [record]
        self._held.append(record)
        return []

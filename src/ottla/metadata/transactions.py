"""Metadata transactions: records between a begin and an end marker take effect together or not at all.

Apache Kafka writes them if one change needs more than one batch (for example its bootstrap records). A decision
of Ottla fits into one batch, which is atomic, so these markers are only read. A new leader aborts a transaction
that a stopped controller left open.
"""

from __future__ import annotations

from ottla.metadata.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from ottla.wire.schema import Message


class TransactionFilter:
    """Delays the records of a transaction until it ends."""

    def __init__(self) -> None:
        self._pending: list[Message] | None = None

    @property
    def open(self) -> bool:
        """True inside a transaction whose end has not been seen."""
        return self._pending is not None

    def admit(self, record: Message) -> list[Message]:
        """The records that take effect with this one."""
        if isinstance(record, BeginTransactionRecord):
            self._pending = []
            return []
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            pending = self._pending or []
            self._pending = None
            return pending if isinstance(record, EndTransactionRecord) else []
        if self._pending is None:
            return [record]
        self._pending.append(record)
        return []

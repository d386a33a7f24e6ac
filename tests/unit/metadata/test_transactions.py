from __future__ import annotations

from ottla.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from ottla.metadata.transactions import TransactionFilter
from ottla.wire.schema import Message


def admitted(*records: Message) -> tuple[list[Message], bool]:
    passing = TransactionFilter()
    return [counted for record in records for counted in passing.admit(record)], passing.open


A, B = FeatureLevelRecord(name="a"), FeatureLevelRecord(name="b")


def test_records_outside_count_at_once() -> None:
    assert admitted(A, B) == ([A, B], False)


def test_records_inside_count_at_the_end() -> None:
    assert admitted(BeginTransactionRecord(), A, B) == ([], True)
    assert admitted(BeginTransactionRecord(), A, B, EndTransactionRecord(), NoOpRecord()) == (
        [A, B, NoOpRecord()],
        False,
    )


def test_aborted_records_never_count() -> None:
    assert admitted(BeginTransactionRecord(), A, AbortTransactionRecord(), B) == ([B], False)

"""The commit log of a query: which batch is committed, and its compare-and-append rule.

Each record has, as `after`, the offset of the record that its writer regarded as the current one. The order of the log
decides: of two records with the same `after`, the first one counts and the second one is void. So a driver that was
presumed dead and continues cannot commit anything, and no lock is needed. A writer reads its record back before it
writes another one.

The key of a record is the query and the run (one start of a query), and the topic is compacted: the last record of each
run remains. Compaction never removes the current record. The last record of a run is void only if the record of another
run was appended before it, and then the current record is that one or a later one. Of the remaining records the current
one has the highest `after`, and of equal ones it is the first, because each record that counted has the offset of the
one before as its `after`.

    key    <query>/<run>
    value  {"after": 17, "batch": 4, "state": "prepared", "transactions": [[id, producer id, epoch], ...]}

Pure: `spark.sink.commit_log_topic` reads and writes the log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ottla.base.errors import OttlaError

NOTHING_BEFORE: Final = -1


class State(Enum):
    PREPARED = "prepared"
    """The transactions of the batch will be committed; some may be committed already."""
    DONE = "done"
    """All of them are committed."""


class PreparedTransaction(NamedTuple):
    """A transaction that is written and left open. A client with these three values can end it."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class CommitEntry:
    """The state of a batch and its transactions."""

    batch: int
    state: State
    transactions: tuple[PreparedTransaction, ...] = ()


@dataclass(frozen=True)
class CommitRecord:
    """An entry with its position in the log and its writer."""

    offset: int
    run: str
    after: int
    entry: CommitEntry


class CommitLogDamaged(OttlaError):
    """A record of the commit log cannot be read; continuing could write a batch twice."""


class CommitLogState:
    """The current record of one query. Records are applied in the order of the log."""

    def __init__(self) -> None:
        self.current: CommitRecord | None = None

    def apply(self, record: CommitRecord) -> bool:
        """Apply a record; return whether it counts and is the current one now."""
        if self.current is not None and record.after <= self.current.after:
            return False
        self.current = record
        return True

    @property
    def entry(self) -> CommitEntry | None:
        return None if self.current is None else self.current.entry

    @property
    def end(self) -> int:
        """The `after` of the next record."""
        return NOTHING_BEFORE if self.current is None else self.current.offset

    def has(self, run: str, after: int, entry: CommitEntry) -> bool:
        """Whether the current record is this entry of this run with this `after`.

        A record whose append has timed out may be appended later, with the same run and the same `after`, and count.
        """
        current = self.current
        return current is not None and (current.run, current.after, current.entry) == (run, after, entry)


def key_of(query: str, run: str) -> bytes:
    return f"{query}/{run}".encode()


def encode_value(after: int, entry: CommitEntry) -> bytes:
    fields = {
        "after": after,
        "batch": entry.batch,
        "state": entry.state.value,
        "transactions": [list(one) for one in entry.transactions],
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_record(query: str, offset: int, key: bytes | None, value: bytes | None) -> CommitRecord | None:
    """Decode a record; return None if it belongs to another query."""
    beginning = key_of(query, "")
    if key is None or value is None or not key.startswith(beginning):
        return None
    try:
        fields = json.loads(value)
        entry = CommitEntry(
            int(fields["batch"]),
            State(fields["state"]),
            tuple(
                PreparedTransaction(str(name), int(pid), int(epoch))
                for name, pid, epoch in fields["transactions"]
            ),
        )
        return CommitRecord(offset, key[len(beginning) :].decode(), int(fields["after"]), entry)
    except (ValueError, KeyError, TypeError) as error:
        raise CommitLogDamaged(
            f"cannot read the record of the commit log at offset {offset}: {error}"
        ) from error

"""Which batch of a query is committed: a register kept in a log, changed only by who knows its present value.

Every record names, as `after`, the offset of the record that its writer took for the present one. The log's order
decides: of two writers who know the same present, the first to be appended wins and the other's record is void. So a
driver that was given up for dead and wakes up cannot decide anything any more, and nobody needs a lock. A writer
reads its record back, at the latest before it writes another.

Records are keyed by query and run (one start of a query), and the log is compacted: of each run the last record stays.
That never removes the present one. A run's last record is void only if another run was ahead of it, and then the
present is that one's or a later one. Of the records that are left the present one is that with the highest `after`,
and of equal ones the first, because the records that counted have rising `after`s, each the offset of the one before.

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
    """The transactions of the batch are to be committed; some may be already."""
    DONE = "done"
    """All of them are committed."""


class PreparedTransaction(NamedTuple):
    """A transaction that is written and left open; whoever has these three can end it."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class CommitEntry:
    """What is decided about a batch."""

    batch: int
    state: State
    transactions: tuple[PreparedTransaction, ...] = ()


@dataclass(frozen=True)
class CommitRecord:
    """An entry as it lies in the log."""

    offset: int
    run: str
    after: int
    entry: CommitEntry


class CommitLogDamaged(OttlaError):
    """A record of the commit log cannot be read; going on could write a batch twice."""


class CommitLogState:
    """The records of one query, taken in the order of the log."""

    def __init__(self) -> None:
        self.present: CommitRecord | None = None

    def take(self, record: CommitRecord) -> bool:
        """Whether the record counts: it is the present one from now on."""
        if self.present is not None and record.after <= self.present.after:
            return False
        self.present = record
        return True

    @property
    def entry(self) -> CommitEntry | None:
        return None if self.present is None else self.present.entry

    @property
    def end(self) -> int:
        """What the next record has to come after."""
        return NOTHING_BEFORE if self.present is None else self.present.offset

    def has(self, run: str, after: int, entry: CommitEntry) -> bool:
        """Whether the present record is the one with which a run has decided that, after that offset.

        A record that was given up may arrive after all, of the same run and after the same offset, and count.
        """
        present = self.present
        return present is not None and (present.run, present.after, present.entry) == (run, after, entry)


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
    """None if the record is not about this query."""
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
            f"the commit log's record at offset {offset} cannot be read: {error}"
        ) from error

"""History of a transactional copy, from the journal of the copiers and from a reader of committed records.

The value of a copy is the original value, `@` and the name of the transaction, so that a record that is copied again
after an abort has another value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ottla.base.ids import TopicPartition
from ottla.testing.history import History

SEPARATOR = b"@"


def original_value(copied: bytes) -> bytes:
    """The value of which another one is the copy."""
    return copied.rpartition(SEPARATOR)[0]


class _Clock:
    """The time of the event that is added."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def copy_history(lines: Iterable[str], source: str, target: str, group: str) -> History:
    """The events of a journal. An incomplete last line is left out: its process was killed."""
    clock = _Clock()
    history = History(clock)
    for line in lines:
        if not line.endswith("\n"):
            continue
        event, transaction, clock.now, *facts = json.loads(line)
        if event == "began":
            # Each copier has its own sequence of transactions: the name begins with its process id.
            history.began(transaction, transaction.partition("-")[0], group)
        elif event == "read":
            partition, offset, value = facts
            where = TopicPartition(source, partition)
            history.read(transaction, where, offset, value.encode(), transaction)
        elif event == "sent":
            history.sent(transaction.partition("-")[0], facts[0].encode(), transaction)
        elif event == "acknowledged":
            partition, offset, value = facts
            history.acknowledged(value.encode(), TopicPartition(target, partition), offset)
        elif event == "requested":
            history.commit_requested(transaction)
        else:
            history.ended(transaction, committed=event == "committed")
    return history

"""What a coordinator decides: records to be written, and the answer to give once they are committed.

Deciding reads state and changes nothing that the log keeps: only replaying a record does. State that lives in
memory alone (who has joined a rebalance, when a heartbeat was seen) may be changed while deciding.

`settled`, if given, is told how the records fared: NONE once they are committed, else the error that kept
them out of the log, in which case none of them was replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.wire.schema import Message

R = TypeVar("R")


class LogRecord(NamedTuple):
    """A record of a coordinator's log: key and value as messages; without a value it erases the key.

    `version` is the version in which the value is written.
    """

    key: Message
    value: Message | None = None
    version: int = 0


class Decision(Generic[R]):
    """Records and an answer, which may itself be a promise."""

    __slots__ = ("on_complete", "records", "response")

    def __init__(
        self,
        response: R | Promise[R],
        records: list[LogRecord] | None = None,
        on_complete: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        self.response = response
        self.records = records or []
        self.on_complete = on_complete

"""Decisions of a coordinator: the records to append and the response to send once they are committed.

Deciding reads state and does not change what the log stores: only the replay of a record does. State that exists only
in memory (which members have joined a rebalance, the time of the last heartbeat) may change while deciding.

`on_complete`, if given, is called with NONE once the records are committed. If they could not be appended, it is
called with the error, and none of them was replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.wire.schema import Message

R = TypeVar("R")


class LogRecord(NamedTuple):
    """A record of a coordinator's log: key and value as messages. Without a value it is a tombstone.

    `version` is the version in which the value is encoded.
    """

    key: Message
    value: Message | None = None
    version: int = 0


class Decision(Generic[R]):
    """Records and a response, which may be a promise."""

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

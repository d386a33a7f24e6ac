"""The result of a decision: its records, and the response to send when they are committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.wire.schema import Message

R = TypeVar("R")

# The most records that one request may append, and the most that one batch of the metadata log has.
RECORDS_PER_REQUEST_MAX: Final = 10_000


Charge = Callable[[int], None]
"""Count partitions that a request creates or deletes; ApiError if a quota does not allow them."""


def uncharged(_: int) -> None:
    """Count nothing: the request has no quota."""


class Decision(NamedTuple, Generic[R]):
    """Records that are committed all or none, and the response."""

    records: list[Message]
    response: R


class SplittableDecision(Decision[R]):
    """A decision whose records may be written in several batches: each prefix of them leads to a valid state."""


def check_record_count(count: int) -> None:
    """Refuse a request that would append more records than one request may."""
    if count > RECORDS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"one request may append at most {RECORDS_PER_REQUEST_MAX} metadata records; split the request",
        )

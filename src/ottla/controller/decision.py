"""What a decision yields: the records that make it true, and the answer to give once they are committed."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.wire.schema import Message

R = TypeVar("R")

# As many records as one request may cause: it bounds what a single client can make the controller do.
RECORDS_PER_REQUEST_MAX: Final = 10_000


class Decision(NamedTuple, Generic[R]):
    """Records are committed all together or not at all; without records the answer needs no commit."""

    records: list[Message]
    response: R


def check_record_count(count: int) -> None:
    """Refuse a request that would need more records than one may cause."""
    if count > RECORDS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"one request may cause {RECORDS_PER_REQUEST_MAX} changes at most; split it",
        )

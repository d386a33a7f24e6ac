"""DeleteRecords: when the response is sent, and what it contains for each partition."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.authorization import Authorization
from ottla.broker.handlers.k21_delete_records import DeleteRecords
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


class Partition:
    """A partition with a high watermark of 9; the test decides when its followers have deleted the records."""

    high_watermark, low_watermark = 9, 2

    def __init__(self) -> None:
        self.deletions: list[tuple[int, Promise[int]]] = []

    def check_leader(self) -> None:
        """This broker leads."""

    def delete_records(self, offset: int) -> Promise[int]:
        if offset > self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.deletions.append((offset, Promise()))
        return self.deletions[-1][1]


class Deletion:
    """One request for offsets of the partitions of topic t."""

    def __init__(self, *offsets: int, timeout_ms: int = 500) -> None:
        self.partitions = [Partition() for _ in offsets]
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0
        handler = DeleteRecords(Authorization(), cast(Any, self), cast(Any, self))
        wanted = [DeleteRecordsPartition(index, offset) for index, offset in enumerate(offsets)]
        request = DeleteRecordsRequest([DeleteRecordsTopic("t", wanted)], timeout_ms)
        self.response: Promise[DeleteRecordsResponse] = handler.handle(
            request, cast(Any, SimpleNamespace(origin=None))
        )

    def get(self, topic: str, index: int) -> Partition:
        return self.partitions[index]

    def timer(self, seconds: float, expire: Callable[[], None]) -> Deletion:
        self.timers.append((seconds, expire))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def deleted(self, index: int) -> Promise[int]:
        ((_, promise),) = self.partitions[index].deletions
        return promise

    def results(self) -> list[tuple[int, int, int]]:
        (topic,) = self.response.result().topics
        return [(one.partition_index, one.low_watermark, one.error_code) for one in topic.partitions]


def test_the_response_is_sent_when_all_partitions_are_done() -> None:
    deletion = Deletion(4, -1)
    assert [one.deletions[0][0] for one in deletion.partitions] == [4, 9]
    deletion.deleted(1).keep(9)
    assert not deletion.response.done
    deletion.deleted(0).keep(5)
    assert deletion.results() == [(0, 5, 0), (1, 9, 0)]
    assert deletion.cancelled == 1


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(500, 0.5), (0, 0.0), (-1, 0.0)])
def test_after_the_timeout_the_other_partitions_have_timed_out(timeout_ms: int, seconds: float) -> None:
    deletion = Deletion(4, 5, timeout_ms=timeout_ms)
    deletion.deleted(1).keep(5)
    ((at, expire),) = deletion.timers
    assert at == seconds
    expire()
    assert deletion.results() == [(0, 2, ErrorCode.REQUEST_TIMED_OUT), (1, 5, 0)]
    deletion.deleted(0).keep(4)
    assert deletion.results()[0] == (0, 2, ErrorCode.REQUEST_TIMED_OUT)


def test_an_error_has_no_low_watermark() -> None:
    deletion = Deletion(10, 3)
    deletion.deleted(1).fail(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert deletion.results() == [
        (0, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]


def test_a_request_whose_partitions_are_all_refused_does_not_wait() -> None:
    deletion = Deletion(10)
    assert deletion.results() == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert deletion.timers == []

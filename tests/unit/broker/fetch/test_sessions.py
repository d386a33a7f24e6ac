"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

import random

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.fetch.sessions import FetchSessions
from ottla.wire.fetch import FetchPartition, FetchRequest, PartitionData

NAMED, BY_ID = 12, 13


def wanted(partition: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, 1000)


def request(
    session_id: int = 0,
    epoch: int = 0,
    partitions: tuple[FetchPartition, ...] = (),
    forgotten: tuple[int, ...] = (),
) -> FetchRequest:
    topics = [(b"t", list(partitions))] if partitions else []
    dropped = [(b"t", list(forgotten))] if forgotten else []
    return FetchRequest(-1, 0, 0, 1000, 0, session_id, epoch, topics, dropped, "")


def data(
    partition: int, records: bytes = b"", *, watermark: int = 5, error: int = 0
) -> tuple[bytes, PartitionData]:
    return b"t", PartitionData(partition, error, watermark, watermark, 0, records)


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(random.Random(1), slots=2)


def indexes(answers: list[tuple[bytes, PartitionData]]) -> list[int]:
    return [answer.index for _, answer in answers]


def test_a_first_request_gets_a_full_response_and_a_session(sessions: FetchSessions) -> None:
    context = sessions.context(request(partitions=(wanted(0), wanted(1))), NAMED, 0.0)
    assert context.session_id > 0
    assert [(key, one.partition) for key, one in context.wanted] == [(b"t", 0), (b"t", 1)]
    answers = [data(0), data(1)]
    assert context.select(answers) == answers


def test_a_follow_up_names_nothing_and_gets_only_news(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0), wanted(1))), NAMED, 0.0)
    first.select([data(0), data(1)])
    context = sessions.context(request(first.session_id, 1), NAMED, 1.0)
    assert [one.partition for _, one in context.wanted] == [0, 1]
    assert indexes(context.select([data(0), data(1)])) == []
    context = sessions.context(request(first.session_id, 2), NAMED, 1.0)
    assert indexes(context.select([data(0, watermark=6), data(1)])) == [0]


def test_a_partition_that_returned_records_moves_to_the_end(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0), wanted(1))), NAMED, 0.0)
    first.select([data(0, b"records"), data(1)])
    second = sessions.context(request(first.session_id, 1), NAMED, 0.0)
    assert [one.partition for _, one in second.wanted] == [0, 1]
    second.select([data(0, b"records"), data(1)])
    third = sessions.context(request(first.session_id, 2), NAMED, 0.0)
    assert [one.partition for _, one in third.wanted] == [1, 0]


def test_a_session_may_begin_without_partitions(sessions: FetchSessions) -> None:
    assert sessions.context(request(partitions=()), NAMED, 0.0).session_id > 0


def test_the_next_success_after_an_error_is_sent(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0),)), NAMED, 0.0)
    first.select([data(0)])
    failed = sessions.context(request(first.session_id, 1), NAMED, 0.0)
    assert indexes(failed.select([data(0, error=6)])) == [0]
    healed = sessions.context(request(first.session_id, 2), NAMED, 0.0)
    assert indexes(healed.select([data(0)])) == [0]


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0), wanted(1))), NAMED, 0.0)
    change = request(first.session_id, 1, (wanted(0, offset=9), wanted(2)), forgotten=(1,))
    context = sessions.context(change, NAMED, 0.0)
    assert [(one.partition, one.fetch_offset) for _, one in context.wanted] == [(0, 9), (2, 0)]


def test_a_session_without_partitions_ends(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0),)), NAMED, 0.0)
    assert sessions.context(request(first.session_id, 1, forgotten=(0,)), NAMED, 0.0).session_id == 0
    gone = sessions.context(request(first.session_id, 2), NAMED, 0.0)
    assert gone.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_wrong_numbers_are_refused_and_do_no_harm(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0),)), NAMED, 0.0)
    bad_epoch = sessions.context(request(first.session_id, 7), NAMED, 0.0)
    assert bad_epoch.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = sessions.context(request(first.session_id, 1), BY_ID, 0.0)
    assert by_id.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.context(request(first.session_id, 1), NAMED, 0.0).error is ErrorCode.NONE


def test_the_final_epoch_closes_the_session_and_gets_a_full_response(sessions: FetchSessions) -> None:
    first = sessions.context(request(partitions=(wanted(0),)), NAMED, 0.0)
    last = sessions.context(request(first.session_id, -1, (wanted(0),)), NAMED, 0.0)
    assert last.session_id == 0
    assert len(sessions) == 0


def test_a_full_cache_creates_no_session_until_one_has_been_idle(sessions: FetchSessions) -> None:
    held = [sessions.context(request(partitions=(wanted(0),)), NAMED, 0.0) for _ in range(2)]
    assert sessions.context(request(partitions=(wanted(0),)), NAMED, 60.0).session_id == 0
    sessions.context(request(held[0].session_id, 1), NAMED, 100.0)
    assert sessions.context(request(partitions=(wanted(0),)), NAMED, 121.0).session_id > 0
    evicted = sessions.context(request(held[1].session_id, 1), NAMED, 121.0)
    assert evicted.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_larger_session_evicts_a_smaller_one_that_is_old_enough(
    sessions: FetchSessions,
) -> None:
    held = [sessions.context(request(partitions=(wanted(0),)), NAMED, 0.0) for _ in range(2)]
    for context in held:
        sessions.context(request(context.session_id, 1), NAMED, 121.0)
    large = request(partitions=(wanted(0), wanted(1)))
    assert sessions.context(large, NAMED, 122.0).session_id > 0


def test_the_last_entry_of_a_partition_is_used(sessions: FetchSessions) -> None:
    context = sessions.context(request(epoch=-1, partitions=(wanted(0, 1), wanted(0, 2))), NAMED, 0.0)
    assert [one.fetch_offset for _, one in context.wanted] == [2]

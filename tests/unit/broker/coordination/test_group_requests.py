"""Answers about partitions of which some do not exist, and errors of coordinators in the words of clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.base.promise import Promise
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import (
    TopicResponses,
    by_name,
    client_error,
    client_info,
    to_response,
)
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k12_heartbeat import Heartbeat
from ottla.broker.handlers.k28_txn_offset_commit import TxnOffsetCommit
from ottla.broker.registry import Call
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.support.metadata import one_node

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
Told = list[tuple[str, list[tuple[int, int]]]]


def _topic(name: str, *indexes: int) -> OffsetDeleteRequestTopic:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    return OffsetDeleteRequestTopic(name=name, partitions=partitions)


def _answer(
    topic: OffsetDeleteRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> OffsetDeleteResponseTopic:
    told = [
        OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index, code in partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=told)


def _sorted_out(*topics: OffsetDeleteRequestTopic) -> tuple[list[str], Told]:
    """The topics that the group is asked about, and the whole answer if it takes them all."""
    answers = TopicResponses(_answer)
    kept = answers.existing(list(topics), one_node("t", "u"), by_name)
    asked = [f"{topic.name}-{each.partition_index}" for topic in kept for each in topic.partitions]
    told = answers.joined([answers.refused(topic, ErrorCode.NONE) for topic in kept])
    return asked, [(it.name, [(p.partition_index, p.error_code) for p in it.partitions]) for it in told]


def test_what_exists_is_asked_and_answered_as_it_came() -> None:
    asked, told = _sorted_out(_topic("u", 0), _topic("t", 0), _topic("u", 0))
    assert asked == ["u-0", "t-0", "u-0"]
    assert told == [("u", [(0, 0)]), ("t", [(0, 0)]), ("u", [(0, 0)])]


def test_what_does_not_exist_is_refused_first_and_each_topic_told_once() -> None:
    asked, told = _sorted_out(_topic("t", 0, 9), _topic("nowhere", 0), _topic("u", 0), _topic("t", 7, 0))
    assert asked == ["t-0", "u-0", "t-0"]
    assert told == [
        ("t", [(9, UNKNOWN), (7, UNKNOWN), (0, 0), (0, 0)]),
        ("nowhere", [(0, UNKNOWN)]),
        ("u", [(0, 0)]),
    ]


def test_a_topic_without_partitions_is_left_out() -> None:
    assert _sorted_out(_topic("t")) == ([], [])


def test_what_clients_cannot_act_upon_is_a_failure_of_the_server() -> None:
    assert client_error(ApiError(ErrorCode.MESSAGE_TOO_LARGE)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert client_error(ApiError(ErrorCode.NOT_COORDINATOR)) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(("peer", "host"), [("10.0.0.1:123", "/10.0.0.1"), ("::1:123", "/::1")])
def test_a_client_is_known_by_its_name_and_host(peer: str, host: str) -> None:
    call = SimpleNamespace(client_id=None, peer=peer)
    assert client_info(cast(Call, call)) == ("", host)


def test_a_bug_behind_a_promise_is_not_told_as_an_answer() -> None:
    promise: Promise[int] = Promise()
    answer = to_response(promise, str, lambda error: error.code.name)
    promise.fail(InvariantViolation("a bug"))
    with pytest.raises(InvariantViolation):
        answer.result()


def _call(version: int) -> Call:
    return cast(Call, SimpleNamespace(api_version=version))


def _refusing(error: ErrorCode) -> GroupCoordinator:
    """A coordinator that fails every request."""
    refused: Promise[Any] = Promise()
    refused.fail(ApiError(error))

    async def refuse(*_: object, **__: object) -> None:
        raise ApiError(error)

    groups = SimpleNamespace(submit=lambda *_: refused, write_transactional=refuse)
    return cast(GroupCoordinator, groups)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_lives_while_its_group_is_loaded(error: ErrorCode, told: ErrorCode) -> None:
    answer = Heartbeat(_refusing(error)).handle(HeartbeatRequest(group_id="g"), _call(4))
    assert answer.result().error_code == told


@pytest.mark.parametrize(
    ("version", "told"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_producers_do_not_know_that_coordinators_load(version: int, told: ErrorCode) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0)
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[partition])]
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", topics=topics)
    handler = TxnOffsetCommit(MetadataCache(one_node("t")), _refusing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    work: Any = handler.handle(request, _call(version))
    with pytest.raises(StopIteration) as done:
        work.send(None)
    answer = cast(TxnOffsetCommitResponse, done.value.value)
    assert answer.topics[0].partitions[0].error_code == told

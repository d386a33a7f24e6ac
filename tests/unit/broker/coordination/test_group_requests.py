"""Responses about partitions of which some do not exist, and errors of coordinators as clients get them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.base.promise import Promise
from ottla.broker.authorization import Authorization
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
Responded = list[tuple[str, list[tuple[int, int]]]]


def _topic(name: str, *indexes: int) -> OffsetDeleteRequestTopic:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    return OffsetDeleteRequestTopic(name=name, partitions=partitions)


def _answer(
    topic: OffsetDeleteRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> OffsetDeleteResponseTopic:
    responded = [
        OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index, code in partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=responded)


def _sorted_out(*topics: OffsetDeleteRequestTopic) -> tuple[list[str], Responded]:
    """The topics that the group is passed_on about, and the whole answer if it takes them all."""
    responses = TopicResponses(_answer)
    kept = responses.existing(list(topics), one_node("t", "u"), by_name)
    passed_on = [f"{topic.name}-{each.partition_index}" for topic in kept for each in topic.partitions]
    responded = responses.joined([responses.refused(topic, ErrorCode.NONE) for topic in kept])
    return passed_on, [
        (it.name, [(p.partition_index, p.error_code) for p in it.partitions]) for it in responded
    ]


def test_existing_partitions_are_passed_on_in_their_order() -> None:
    passed_on, responded = _sorted_out(_topic("u", 0), _topic("t", 0), _topic("u", 0))
    assert passed_on == ["u-0", "t-0", "u-0"]
    assert responded == [("u", [(0, 0)]), ("t", [(0, 0)]), ("u", [(0, 0)])]


def test_missing_partitions_come_first_and_each_topic_once() -> None:
    passed_on, responded = _sorted_out(
        _topic("t", 0, 9), _topic("nowhere", 0), _topic("u", 0), _topic("t", 7, 0)
    )
    assert passed_on == ["t-0", "u-0", "t-0"]
    assert responded == [
        ("t", [(9, UNKNOWN), (7, UNKNOWN), (0, 0), (0, 0)]),
        ("nowhere", [(0, UNKNOWN)]),
        ("u", [(0, 0)]),
    ]


def test_a_topic_without_partitions_is_left_out() -> None:
    assert _sorted_out(_topic("t")) == ([], [])


def test_errors_not_for_clients_become_unknown_server_error() -> None:
    assert client_error(ApiError(ErrorCode.MESSAGE_TOO_LARGE)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert client_error(ApiError(ErrorCode.NOT_COORDINATOR)) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(("ip", "host"), [("10.0.0.1", "/10.0.0.1"), ("::1", "/::1")])
def test_a_client_is_known_by_its_name_and_host(ip: str, host: str) -> None:
    call = SimpleNamespace(client_id=None, origin=SimpleNamespace(ip=ip))
    assert client_info(cast(Call, call), Authorization()) == ("", host, None)


def test_an_unexpected_exception_is_not_turned_into_a_response() -> None:
    promise: Promise[int] = Promise()
    answer = to_response(promise, str, lambda error: error.code.name)
    promise.fail(InvariantViolation("a bug"))
    with pytest.raises(InvariantViolation):
        answer.result()


def _call(version: int) -> Call:
    return cast(Call, SimpleNamespace(api_version=version, origin=None))


def _refusing(error: ErrorCode) -> GroupCoordinator:
    """A coordinator that fails every request."""
    refused: Promise[Any] = Promise()
    refused.fail(ApiError(error))

    async def refuse(*_: object, **__: object) -> None:
        raise ApiError(error)

    groups = SimpleNamespace(submit=lambda *_: refused, write_transactional=refuse)
    return cast(GroupCoordinator, groups)


@pytest.mark.parametrize(
    ("error", "responded"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_lives_while_its_group_is_loaded(error: ErrorCode, responded: ErrorCode) -> None:
    answer = Heartbeat(Authorization(), _refusing(error)).handle(HeartbeatRequest(group_id="g"), _call(4))
    assert answer.result().error_code == responded


@pytest.mark.parametrize(
    ("version", "responded"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_producers_do_not_know_that_coordinators_load(version: int, responded: ErrorCode) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0)
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[partition])]
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", topics=topics)
    loading = _refusing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    handler = TxnOffsetCommit(Authorization(), MetadataCache(one_node("t")), loading)
    work: Any = handler.handle(request, _call(version))
    with pytest.raises(StopIteration) as done:
        work.send(None)
    answer = cast(TxnOffsetCommitResponse, done.value.value)
    assert answer.topics[0].partitions[0].error_code == responded

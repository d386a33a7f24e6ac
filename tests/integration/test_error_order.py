"""Requests with several errors, repeated elements and empty elements: which error is reported, and for what."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages import fetch, list_offsets, produce
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.schema import Message
from tests.support.clients import create_topic, fresh
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)
NOWHERE = "no-such-topic"


class Asking:
    """A connection to the broker."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def __call__(self, request: Message, version: int, response: type[R]) -> R:
        found = self._client.ask(request, version, response)
        assert not isinstance(found, Closed)
        return found


@pytest.fixture
def ask(broker: BrokerProcess) -> Iterator[Asking]:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        yield Asking(client)


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("errors"))


@pytest.fixture
def transactional_id(ask: Asking) -> str:
    """An id whose coordinator is ready."""
    name = fresh("id")
    ask(FindCoordinatorRequest(key=name, key_type=1), 3, FindCoordinatorResponse)
    started = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    wait_until(lambda: ask(started, 4, InitProducerIdResponse).error_code == 0, "the coordinator")
    return name


def batch(**fields: Any) -> bytes:
    return bytes(build_batch([NewRecord(b"k", b"v", timestamp=1_700_000_000_000)], **fields))


def produced(
    ask: Asking, *parts: tuple[str, int, bytes | None], version: int = 9, **fields: Any
) -> list[int]:
    """The error codes of the partitions."""
    topics: dict[str, produce.TopicProduceData] = {}
    for name, index, records in parts:
        data = topics.setdefault(name, produce.TopicProduceData(name=name, partition_data=[]))
        data.partition_data.append(produce.PartitionProduceData(index=index, records=records))
    request = produce.ProduceRequest(**{"acks": -1, "timeout_ms": 10_000, **fields})
    request.topic_data = list(topics.values())
    response = ask(request, version, produce.ProduceResponse)
    return [each.error_code for found in response.responses for each in found.partition_responses]


def test_unknown_acks_are_reported_after_topics_and_batches(ask: Asking, topic: str) -> None:
    parts = (topic, 0, batch()), (topic, 9, batch()), (NOWHERE, 0, batch())
    assert produced(ask, *parts, acks=3) == [
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert produced(ask, (topic, 0, batch() + batch()), acks=3) == [ErrorCode.INVALID_RECORD]
    assert produced(ask, (topic, 0, b""), acks=-7) == [ErrorCode.INVALID_RECORD]


def test_data_that_are_not_one_batch_are_reported_before_an_internal_topic(ask: Asking) -> None:
    ask(FindCoordinatorRequest(key="any"), 3, FindCoordinatorResponse)
    internal = "__consumer_offsets"
    assert produced(ask, (internal, 0, batch())) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert produced(ask, (internal, 0, batch() + batch())) == [ErrorCode.INVALID_RECORD]


def test_transactional_batches_that_cannot_be_appended_are_not_compared_with_the_others(
    ask: Asking, topic: str, transactional_id: str
) -> None:
    mine, other = (
        batch(producer_id=number, producer_epoch=0, base_sequence=0, transactional=True) for number in (5, 6)
    )
    known = {"transactional_id": transactional_id, "version": 11}
    assert produced(ask, (topic, 0, mine), (NOWHERE, 0, other), **known) == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert produced(ask, (topic, 0, mine + mine), **known) == [ErrorCode.INVALID_RECORD]


@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_timeout_does_not_end_a_write_of_one_broker(
    ask: Asking, topic: str, acks: int, timeout_ms: int
) -> None:
    assert produced(ask, (topic, 0, batch()), acks=acks, timeout_ms=timeout_ms) == [0]
    assert produced(ask, (topic, 0, batch()), (NOWHERE, 0, batch()), acks=acks, timeout_ms=timeout_ms) == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def fetched(ask: Asking, topic: str, *, version: int = 12, **fields: Any) -> fetch.FetchResponse:
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch.FetchRequest(**{"max_bytes": 1 << 20, "session_epoch": -1, **fields})
    request.topics = [fetch.FetchTopic(topic=topic, topic_id=uuid.UUID(int=5), partitions=[wanted])]
    return ask(request, version, fetch.FetchResponse)


def test_an_unknown_isolation_level_is_reported_after_the_session(ask: Asking, topic: str) -> None:
    refused = fetched(ask, topic, isolation_level=7)
    assert (refused.error_code, len(refused.responses)) == (ErrorCode.UNKNOWN_SERVER_ERROR, 1)
    opened = fetched(ask, topic, session_epoch=0)
    known = {"session_id": opened.session_id, "isolation_level": 7}
    assert fetched(ask, topic, session_epoch=5, **known).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    refused = fetched(ask, topic, session_epoch=1, **known)
    assert (refused.error_code, refused.session_id) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        opened.session_id,
    )
    assert fetched(ask, topic, session_epoch=2, session_id=opened.session_id).error_code == 0
    missing = fetched(ask, NOWHERE, isolation_level=7)
    assert missing.error_code == 0
    assert missing.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_epoch_of_a_session_is_checked_before_its_kind_of_topics(ask: Asking, topic: str) -> None:
    known = {"session_id": fetched(ask, topic, session_epoch=0).session_id, "version": 13}
    assert fetched(ask, topic, session_epoch=5, **known).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetched(ask, topic, session_epoch=1, **known).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def listed(
    ask: Asking, *topics: tuple[str, list[int]], isolation_level: int = 0
) -> list[tuple[str, list[int]]]:
    """Topics, and the error codes of their partitions."""
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=name,
                partitions=[
                    list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )
    response = ask(request, 5, list_offsets.ListOffsetsResponse)
    return [(found.name, [each.error_code for each in found.partitions]) for found in response.topics]


def test_topics_of_list_offsets_are_merged(ask: Asking, topic: str) -> None:
    assert listed(ask, (topic, [0]), (topic, [0])) == [(topic, [ErrorCode.INVALID_REQUEST])]
    assert listed(ask, (topic, [0]), (topic, [7])) == [
        (topic, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    ]
    assert listed(ask, (topic, []), (NOWHERE, [])) == []
    failed = [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert listed(ask, (topic, [0, 0]), (topic, []), isolation_level=5) == [(topic, failed * 2), (topic, [])]


def test_topics_of_delete_records_are_merged(ask: Asking, topic: str) -> None:
    assert produced(ask, (topic, 0, batch())) == [0]

    def wanted(*offsets: int) -> DeleteRecordsTopic:
        partitions = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in offsets]
        return DeleteRecordsTopic(name=topic, partitions=partitions)

    request = DeleteRecordsRequest(topics=[wanted(9), wanted(), wanted(7, 1)], timeout_ms=10_000)
    (found,) = ask(request, 2, DeleteRecordsResponse).topics
    assert [(each.low_watermark, each.error_code) for each in found.partitions] == [(1, 0)]
    assert ask(DeleteRecordsRequest(topics=[wanted()]), 2, DeleteRecordsResponse).topics == []


def test_a_deletion_of_invalid_entries_alone_does_not_time_out(ask: Asking, topic: str) -> None:
    def deleted(*topics: DeleteTopicState) -> list[int]:
        request = DeleteTopicsRequest(topics=list(topics), timeout_ms=0)
        return [each.error_code for each in ask(request, 6, DeleteTopicsResponse).responses]

    once = DeleteTopicState(name=topic)
    assert deleted(once, once) == [ErrorCode.INVALID_REQUEST]
    assert deleted(DeleteTopicState()) == [ErrorCode.INVALID_REQUEST]
    both = DeleteTopicState(name=topic, topic_id=uuid.UUID(int=7))
    assert deleted(both) == [ErrorCode.INVALID_REQUEST]
    assert deleted(once, both) == [ErrorCode.REQUEST_TIMED_OUT] * 2


def test_an_empty_name_needs_a_cursor(ask: Asking, topic: str) -> None:
    def described(cursor: Cursor | None) -> dict[str | None, int]:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=topic), TopicRequest(name="")], cursor=cursor
        )
        response = ask(request, 0, DescribeTopicPartitionsResponse)
        return {each.name: each.error_code for each in response.topics}

    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert described(None) == {topic: failed, "": failed}
    assert described(Cursor()) == {topic: 0, "": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_page_ends_before_a_topic_that_does_not_exist(ask: Asking, topic: str) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=topic), TopicRequest(name=f"{topic}-x")], response_partition_limit=1
    )
    response = ask(request, 0, DescribeTopicPartitionsResponse)
    assert [each.name for each in response.topics] == [topic]
    assert response.next_cursor is not None
    assert response.next_cursor.topic_name == f"{topic}-x"


def test_an_election_for_no_partition_is_not_checked(ask: Asking) -> None:
    request = ElectLeadersRequest(topic_partitions=[], election_type=9, timeout_ms=-1)
    assert ask(request, 2, ElectLeadersResponse) == ElectLeadersResponse()


def test_unknown_states_are_listed_once(ask: Asking) -> None:
    request = ListTransactionsRequest(state_filters=["x", "Ongoing", "y", "x"])
    assert ask(request, 2, ListTransactionsResponse).unknown_state_filters == ["x", "y"]


def test_partitions_of_a_transaction_are_listed_as_requested(
    ask: Asking, topic: str, transactional_id: str
) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=1 << 40,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[0, 0]),
            AddPartitionsToTxnTopic(name=topic, partitions=[]),
        ],
    )
    response = ask(request, 3, AddPartitionsToTxnResponse)
    assert [
        [each.partition_error_code for each in found.results_by_partition]
        for found in response.results_by_topic_v3_and_below
    ] == [[ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2, []]

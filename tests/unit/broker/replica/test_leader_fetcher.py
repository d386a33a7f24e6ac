"""The fetch session of a follower with one leader: what each request contains, and how many are in flight."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.replica.leader_fetcher import LeaderFetcher
from ottla.metadata.records import RemoveTopicRecord
from ottla.peer.errors import PeerError, Reason
from ottla.storage.log.log_config import LogConfig
from ottla.wire.messages.fetch import FetchResponse
from tests.support.followers import LEADER, NODE, OTHER, TOPIC_ID, FollowingBroker, data, raw


@pytest.fixture
def broker() -> FollowingBroker:
    made = FollowingBroker()
    made.create(3)
    return made


def in_session(broker: FollowingBroker) -> None:
    """The session is established, and one request waits at the leader."""
    broker.respond()
    broker.settle()
    assert broker.next_request().session_epoch == 1


def fetcher(broker: FollowingBroker) -> LeaderFetcher:
    return broker.fetchers._fetchers[LEADER]


def test_a_request_has_the_log_start_of_each_replica(broker: FollowingBroker) -> None:
    """The leader deletes records only when all replicas have deleted them."""
    starts = [one.log_start_offset for topic in broker.next_request().topics for one in topic.partitions]
    assert starts == [0, 0, 0]
    broker.respond(*(data(index, raw(0, 0, 5), high_watermark=5, log_start=2) for index in (0, 1)))
    broker.settle()
    starts = [one.log_start_offset for topic in broker.next_request().topics for one in topic.partitions]
    assert starts == [2, 2]


def test_a_request_may_wait_at_the_leader_for_longer_than_the_timeout(broker: FollowingBroker) -> None:
    assert broker.peers.timeouts == [30.5]


def test_a_partition_of_which_only_offsets_arrived_is_not_listed_again(broker: FollowingBroker) -> None:
    in_session(broker)
    broker.respond(data(0, high_watermark=0))
    broker.settle()
    assert broker.next_request().session_epoch == 2
    assert broker.positions() == []


def test_no_other_request_is_sent_before_the_session_is_established(broker: FollowingBroker) -> None:
    broker.lead(LEADER)
    broker.settle()
    assert len(broker.peers.waiting) == 1
    broker.respond()
    broker.settle()
    assert len(broker.peers.waiting) == 1
    assert broker.next_request().session_epoch == 1
    assert broker.positions() == [(0, 1, 0, -1)]


def test_at_most_two_requests_are_in_flight(broker: FollowingBroker) -> None:
    in_session(broker)
    for index in range(3):
        broker.lead(LEADER, index)
        broker.settle()
    assert len(broker.peers.waiting) == 2
    broker.respond()
    broker.settle()
    assert [message.session_epoch for _, message, _ in broker.peers.waiting] == [2, 3]


def test_a_refused_position_is_listed_again_although_another_request_is_in_flight(
    broker: FollowingBroker,
) -> None:
    """The leader, which did not lead in this epoch yet, has not recorded it: the replica would never join the ISR."""
    in_session(broker)
    for index in (0, 1):
        broker.lead(LEADER, index)
        broker.settle()
        broker.respond()
        broker.settle()
    assert broker.positions() == [(1, 1, 0, -1)]
    broker.lead(LEADER, 2)
    broker.settle()
    broker.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    broker.settle()
    broker.loop.advance(0.05)
    broker.respond(data(0))
    broker.settle()
    assert (0, 1, 0, -1) in broker.positions()


def test_the_session_epoch_begins_again_after_the_largest_one(broker: FollowingBroker) -> None:
    in_session(broker)
    fetcher(broker)._session_epoch = 2**31 - 1
    for epoch in (2**31 - 1, 1, 2):
        broker.respond()
        broker.settle()
        assert broker.next_request().session_epoch == epoch


def test_a_session_without_partitions_ends() -> None:
    """Positions that moved and sessions that were lost do not count twice."""
    broker = FollowingBroker()
    broker.create(2)
    broker.respond(data(0, raw(0, 0)), data(1, raw(0, 0)))
    broker.settle()
    broker.disconnect()
    broker.loop.advance(0.051)
    in_session(broker)
    broker.respond(data(0, raw(1, 0)))
    broker.settle()
    for index in range(2):
        broker.lead(NODE, index)
    broker.settle()
    while broker.peers.waiting:
        broker.respond()
        broker.settle()
        assert fetcher_count(broker) == 0
    broker.loop.advance(10.0)
    assert not broker.peers.waiting


def fetcher_count(broker: FollowingBroker) -> int:
    return len(broker.fetchers._fetchers)


def test_a_session_whose_partitions_cannot_be_fetched_sends_nothing() -> None:
    broker = FollowingBroker()
    broker.create(1)
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    broker.disconnect()
    broker.loop.advance(0.051)
    in_session(broker)
    broker.respond(data(0, raw(1, 0)))
    broker.settle()
    broker.respond(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    broker.loop.advance(10.0)
    assert not broker.peers.waiting, "it waits for the metadata"


def with_two_requests(broker: FollowingBroker) -> None:
    in_session(broker)
    broker.lead(LEADER)
    broker.settle()
    assert [message.session_epoch for _, message, _ in broker.peers.waiting] == [1, 2]


def test_a_lost_session_ends_all_its_requests(broker: FollowingBroker) -> None:
    with_two_requests(broker)
    broker.respond(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session=0)
    broker.settle()
    assert [message.session_epoch for _, message, _ in broker.peers.waiting] == [2, 0]
    broker.respond(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session=0)  # of the request in the old session
    broker.settle()
    (request,) = [message for _, message, _ in broker.peers.waiting]
    assert (request.session_id, request.session_epoch) == (0, 0)
    broker.respond(data(0, raw(0, 1)))
    broker.settle()
    assert broker.log().log_end_offset == 1
    assert broker.next_request().session_epoch == 1


def test_a_lost_connection_ends_all_requests(broker: FollowingBroker) -> None:
    with_two_requests(broker)
    _, _, first = broker.peers.waiting.popleft()
    first.fail(PeerError(Reason.CLOSED, "closed"))
    broker.loop.advance(0.051)
    assert [message.session_epoch for _, message, _ in broker.peers.waiting] == [2, 0]
    _, _, second = broker.peers.waiting.popleft()
    second.fail(PeerError(Reason.TIMED_OUT, "late"))
    broker.loop.advance(0.051)
    assert [message.session_epoch for _, message, _ in broker.peers.waiting] == [0]
    broker.complete(FetchResponse(session_id=7, responses=[]))
    broker.settle()
    assert (broker.next_request().session_id, broker.next_request().session_epoch) == (7, 1)


def test_a_refused_request_starts_a_new_session_after_a_pause(broker: FollowingBroker) -> None:
    in_session(broker)
    broker.respond(data(0, raw(0, 0)), error=ErrorCode.UNKNOWN_SERVER_ERROR)
    broker.settle()
    assert broker.log().log_end_offset == 0
    assert not broker.peers.waiting
    broker.loop.advance(0.051)
    assert (broker.next_request().session_id, broker.next_request().session_epoch) == (0, 0)
    assert len(broker.positions()) == 3


# The partitions


def test_a_deleted_topic_is_not_followed(broker: FollowingBroker) -> None:
    broker.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    broker.settle()
    assert list(broker.fetchers) == []
    assert fetcher_count(broker) == 0


def test_a_partition_that_is_served_anew_in_the_same_epoch_is_followed_anew(broker: FollowingBroker) -> None:
    """Its lost log has been replaced by an empty one."""
    in_session(broker)
    before = broker.followed()
    topic, log = broker.image.topics.by_id[TOPIC_ID], broker.log()
    broker.replicas._unhost(before.partition)
    broker.replicas._host(topic, 0, log, LogConfig())
    broker.fetchers.served(broker.partition())
    after = broker.followed()
    assert after is not before
    assert after.partition is broker.partition() is not before.partition
    assert broker.partition().follower is after
    broker.settle()
    broker.respond()
    assert broker.positions() == [(0, 0, 0, -1)], "the position is sent again"


def test_a_leader_without_followed_partitions_is_left(broker: FollowingBroker) -> None:
    for index in range(3):
        broker.lead(OTHER, index)
    broker.settle()
    assert list(broker.fetchers._fetchers) == [OTHER]
    broker.respond()
    broker.settle()
    assert [node for node, _, _ in broker.peers.waiting] == [OTHER]

"""A broker follows leaders: positions, appends, truncations, changes of leaders, errors."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, StorageFault
from ottla.base.promise import Promise
from ottla.metadata.records import PartitionRecord
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.partition import Partition
from ottla.storage.log.log import Log
from ottla.wire.messages.fetch import FetchRequest, ForgottenTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.followers import LEADER, NODE, OTHER, SESSION, TOPIC_ID, FollowingBroker, data, raw
from tests.support.logs import headers


@pytest.fixture
def broker() -> FollowingBroker:
    made = FollowingBroker()
    made.create(3)
    return made


def offsets_response(offset: int, error: int = 0) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=error)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])


def test_the_first_request_starts_a_session_with_all_positions(broker: FollowingBroker) -> None:
    request = broker.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (NODE, 5)
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (1, 500, 10 << 20)
    assert broker.positions() == [(0, 0, 0, -1), (1, 0, 0, -1), (2, 0, 0, -1)]
    assert {one.partition_max_bytes for topic in request.topics for one in topic.partitions} == {1 << 20}


def test_the_position_moves_when_the_records_are_synced(broker: FollowingBroker) -> None:
    broker.respond(data(1, raw(0, 0, 2) + raw(2, 0)), data(0, raw(0, 0)))
    broker.turn()
    assert broker.log(1).log_end_offset == 3
    assert not broker.peers.waiting, "the records are not synced"
    broker.executor.step()
    broker.turn()
    assert not broker.peers.waiting, "those of the other partition are not"
    broker.settle()
    request = broker.next_request()
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert broker.positions() == [(1, 0, 3, 0), (0, 0, 1, 0)], "only what has changed"
    assert request.forgotten_topics_data == []
    broker.respond()
    broker.settle()
    request = broker.next_request()
    assert (request.session_epoch, request.topics) == (2, [])


def test_offsets_of_the_leader_are_taken_over_as_far_as_the_log_is_durable(broker: FollowingBroker) -> None:
    class Waiter:
        moved = 0

        def partition_moved(self, partition: Partition) -> None:
            self.moved += 1

    waiter = Waiter()
    broker.partition().read_waiters[waiter] = None
    broker.respond(data(0, raw(0, 0, 5), high_watermark=4, log_start=2))
    broker.turn()
    assert (broker.log().high_watermark, broker.log().log_start_offset, waiter.moved) == (0, 0, 0)
    broker.settle()
    assert (broker.log().high_watermark, broker.log().log_start_offset, waiter.moved) == (4, 2, 1)
    broker.respond(data(0, high_watermark=9, log_start=2))
    broker.settle()
    assert (broker.log().high_watermark, waiter.moved) == (5, 2)


def test_a_slow_write_delays_its_own_partition_only(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0)), data(1, raw(0, 0)))
    broker.turn()
    broker.executor.step()
    broker.loop.advance(0.009)
    assert not broker.peers.waiting
    broker.loop.advance(0.002)
    assert broker.positions() == [(0, 0, 1, 0)]
    assert broker.next_request().forgotten_topics_data == [ForgottenTopic(topic_id=TOPIC_ID, partitions=[1])]
    assert len(broker.peers.waiting) == 1
    broker.settle()
    assert len(broker.peers.waiting) == 2, "the position is sent while a request waits at the leader"
    broker.respond(data(1, raw(0, 0)))
    broker.settle()
    assert broker.log(1).log_end_offset == 1
    assert broker.positions() == [(1, 0, 1, 0)]
    assert broker.next_request().session_epoch == 2
    broker.respond(data(1, raw(1, 0)))
    broker.settle()
    assert broker.log(1).log_end_offset == 2


def test_nothing_is_sent_while_all_partitions_are_written() -> None:
    broker = FollowingBroker()
    broker.create(1)
    broker.respond(data(0, raw(0, 0)))
    broker.loop.advance(0.1)
    assert not broker.peers.waiting
    broker.settle()
    assert broker.next_request().session_epoch == 1
    broker.respond(data(0, raw(1, 0)))
    broker.turn()
    broker.log().fail()
    broker.replay(
        PartitionRecord(
            partition_id=1,
            topic_id=TOPIC_ID,
            replicas=[LEADER, NODE],
            isr=[LEADER],
            leader=LEADER,
            leader_epoch=0,
        )
    )
    broker.settle()
    broker.loop.advance(0.1)
    assert broker.positions() == [(1, 0, 0, -1)]


def test_records_that_diverge_are_truncated(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0, 2) + raw(2, 0), high_watermark=2))
    broker.settle()
    broker.lead(OTHER)
    broker.settle()
    broker.peers.waiting.popleft()
    assert broker.positions(OTHER) == [(0, 1, 3, 0)]
    broker.respond(data(0, diverging=(0, 2), high_watermark=9))
    broker.turn()
    assert not broker.peers.waiting
    broker.settle()
    assert (broker.log().log_end_offset, broker.log().high_watermark) == (2, 2)
    assert broker.positions(OTHER) == [(0, 1, 2, 0)]
    broker.respond(data(0, raw(2, 1, 2)))
    broker.settle()
    assert [(one.base_offset, one.partition_leader_epoch) for one in headers(broker.log())] == [
        (0, 0),
        (2, 1),
    ]


def test_a_truncation_waits_for_the_write_under_way(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0) + raw(1, 0)))
    broker.settle()
    broker.followed().partition.log.append_raw(raw(2, 0), 0)
    broker.group_commit.schedule(broker.log())
    broker.turn()
    broker.lead(OTHER)
    broker.turn()
    assert len(broker.peers.waiting) == 1, "no position while records are being written"
    broker.settle()
    broker.peers.waiting.popleft()
    assert broker.positions(OTHER) == [(0, 1, 3, 0)]


def lookups(broker: FollowingBroker) -> list[Promise[Any]]:
    """The fetch offset is out of range: the requests for the offsets of the leader."""
    broker.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    broker.settle()
    return [
        promise for _, message, promise in broker.peers.waiting if isinstance(message, ListOffsetsRequest)
    ]


@pytest.mark.parametrize("leader", [NODE, OTHER, LEADER])
def test_a_truncation_that_waits_has_no_effect_in_the_next_epoch(
    broker: FollowingBroker, leader: int
) -> None:
    broker.respond(data(0, raw(0, 0) + raw(1, 0)))
    broker.settle()
    earliest, latest = lookups(broker)
    log = broker.log()
    log.append_raw(raw(2, 0), 0)
    broker.group_commit.schedule(log)
    broker.turn()
    earliest.keep(offsets_response(0))
    latest.keep(offsets_response(1))
    broker.turn()
    assert not log.truncating, "a write is under way"
    broker.lead(leader)
    broker.settle()
    assert (log.log_end_offset, log.committable_offset) == (3, 3)


@pytest.mark.parametrize("leader", [NODE, OTHER, LEADER])
def test_offsets_that_were_looked_up_have_no_effect_in_the_next_epoch(
    broker: FollowingBroker, leader: int
) -> None:
    broker.respond(data(0, raw(0, 0) + raw(1, 0)))
    broker.settle()
    earliest, latest = lookups(broker)
    broker.lead(leader)
    broker.settle()
    earliest.keep(offsets_response(0))
    latest.keep(offsets_response(1))
    broker.settle()
    assert broker.log().log_end_offset == 2


def test_a_response_of_an_old_term_has_no_effect(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    broker.lead(OTHER)
    for response in (data(0, raw(1, 0), high_watermark=1), data(0, diverging=(0, 0))):
        broker.respond(response)
        broker.settle()
        assert (broker.log().log_end_offset, broker.log().high_watermark) == (1, 0)
        requests = [(node, message) for node, message, _ in broker.peers.waiting]
        assert sorted(node for node, _ in requests) == [LEADER, OTHER]
        while broker.peers.waiting[0][0] != LEADER:
            broker.peers.waiting.rotate()
        if response.records:
            assert broker.next_request().forgotten_topics_data == [
                ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])
            ]


def test_the_same_leader_in_another_epoch(broker: FollowingBroker) -> None:
    broker.respond()
    broker.settle()
    broker.lead(LEADER)
    broker.settle()
    assert len(broker.peers.waiting) == 2, "the new epoch is sent at once"
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    assert broker.log().log_end_offset == 0, "the records were read in the old epoch"
    assert broker.positions() == [(0, 1, 0, -1)]
    assert broker.next_request().forgotten_topics_data == []
    broker.respond(data(0, raw(0, 0) + raw(1, 2)))
    broker.settle()
    assert broker.log().log_end_offset == 1, "no record of an epoch above that of the fetch"


def test_a_leader_fetches_nothing(broker: FollowingBroker) -> None:
    broker.lead(NODE)
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    assert broker.log().log_end_offset == 0
    assert broker.next_request().forgotten_topics_data == [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])]
    assert broker.partition().follower is None
    for index in (1, 2):
        broker.lead(NODE, index)
    broker.settle()
    broker.respond()
    broker.settle()
    assert not broker.peers.waiting


def test_a_partition_without_a_leader_is_not_fetched(broker: FollowingBroker) -> None:
    for index in range(3):
        broker.lead(-1, index)
    broker.respond()
    broker.settle()
    assert not broker.peers.waiting
    broker.lead(LEADER, 2)
    broker.settle()
    assert broker.positions() == [(2, 2, 0, -1)]


def test_a_refused_partition_is_delayed(broker: FollowingBroker) -> None:
    broker.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH), data(1, raw(0, 0)))
    broker.settle()
    assert broker.positions() == [(1, 0, 1, 0)]
    assert broker.next_request().forgotten_topics_data == [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])]
    broker.loop.advance(0.019)
    assert len(broker.peers.waiting) == 1
    broker.loop.advance(0.002)
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 0, -1)]


def test_a_fenced_partition_waits_for_the_metadata(broker: FollowingBroker) -> None:
    broker.respond(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    broker.settle()
    broker.respond()
    broker.loop.advance(100)
    assert broker.positions() == []
    broker.lead(LEADER)
    broker.settle()
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 1, 0, -1)]


def test_damaged_records_delay_their_partition_only(broker: FollowingBroker) -> None:
    damaged = bytearray(raw(0, 0))
    damaged[-1] ^= 1
    broker.respond(data(0, bytes(damaged)), data(1, raw(0, 0)))
    broker.settle()
    assert (broker.log(0).log_end_offset, broker.log(1).log_end_offset) == (0, 1)
    assert broker.positions() == [(1, 0, 1, 0)]
    broker.loop.advance(0.1)
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 0, -1)]


def test_a_log_that_ends_below_the_leaders_is_restarted(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0, 3), high_watermark=3))
    broker.settle()
    broker.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    broker.settle()
    fetch, *lookups = [message for _, message, _ in broker.peers.waiting]
    assert all(
        isinstance(one, ListOffsetsRequest) and one.replica_id == NODE for one in (fetch, *lookups)[:2]
    )
    wanted = [one.topics[0].partitions[0] for one in (fetch, *lookups)[:2]]
    assert [(one.timestamp, one.current_leader_epoch) for one in wanted] == [(-2, 0), (-1, 0)]
    broker.complete(offsets_response(100))
    broker.complete(offsets_response(150))
    broker.settle()
    assert (broker.log().log_start_offset, broker.log().log_end_offset) == (100, 100)
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 100, -1)]


def test_an_offset_above_the_end_of_the_leader_is_truncated(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0) + raw(1, 0) + raw(2, 0)))
    broker.settle()
    broker.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    broker.settle()
    broker.complete(offsets_response(0))
    broker.complete(offsets_response(1))
    broker.settle()
    assert broker.log().log_end_offset == 1


@pytest.mark.parametrize("offset", [-1, 0])
def test_a_failed_lookup_is_repeated(broker: FollowingBroker, offset: int) -> None:
    broker.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    broker.settle()
    broker.complete(offsets_response(offset, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    broker.complete(offsets_response(7))
    broker.settle()
    assert [type(message) for _, message, _ in broker.peers.waiting] == [FetchRequest]
    broker.loop.advance(1)
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 0, -1)]


def test_a_log_start_within_a_batch(broker: FollowingBroker) -> None:
    broker.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    broker.settle()
    broker.complete(offsets_response(12))
    broker.complete(offsets_response(20))
    broker.settle()
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 12, -1)]
    records = build_batch([NewRecord(None, b"v")] * 10, base_offset=10, leader_epoch=0)
    broker.respond(data(0, records, high_watermark=20, log_start=12))
    broker.settle()
    log = broker.log()
    assert (log.log_start_offset, log.log_end_offset, log.segments.first.base_offset) == (12, 20, 10)
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 20, 0)]


def test_a_lost_connection_starts_a_new_session(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    broker.disconnect()
    broker.settle()
    assert not broker.peers.waiting
    broker.loop.advance(0.051)
    request = broker.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert sorted(broker.positions()) == [(0, 0, 1, 0), (1, 0, 0, -1), (2, 0, 0, -1)]


def test_nothing_is_sent_in_the_pause_after_a_lost_connection(broker: FollowingBroker) -> None:
    broker.disconnect()
    broker.settle()
    broker.lead(LEADER)
    broker.settle()
    assert not broker.peers.waiting
    broker.loop.advance(0.051)
    assert len(broker.positions()) == 3


@pytest.mark.parametrize(
    "error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_a_lost_session_is_started_again(broker: FollowingBroker, error: ErrorCode) -> None:
    broker.respond()
    broker.settle()
    broker.respond(error=error, session=0)
    broker.settle()
    request = broker.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert len(broker.positions()) == 3


def test_a_broker_that_registers_again_reports_all_replicas_in_a_new_session(broker: FollowingBroker) -> None:
    """Idle partitions, too: a leader lets only the current incarnation into the ISR."""
    broker.respond()
    broker.settle()
    assert broker.next_request().topics == []
    broker.broker_epoch = 9
    broker.respond()
    broker.settle()
    request = broker.next_request()
    assert (request.session_id, request.session_epoch) == (SESSION, 0)
    assert request.replica_state.replica_epoch == 9
    assert len(broker.positions()) == 3


def test_a_leader_without_room_for_a_session(broker: FollowingBroker) -> None:
    for _ in range(3):
        broker.respond(session=0)
        broker.settle()
        assert broker.next_request().session_epoch == 0
        assert len(broker.positions()) == 3


def test_a_large_response_is_processed_in_passes(broker: FollowingBroker) -> None:
    large = raw(0, 0, value=bytes(700_000))
    broker.respond(data(0, large), data(1, large), data(2, large))
    assert [broker.log(index).log_end_offset for index in range(3)] == [1, 1, 0]
    broker.settle()
    assert [broker.log(index).log_end_offset for index in range(3)] == [1, 1, 1]
    assert len(broker.positions()) == 3


def test_a_failed_disk_stops_its_partitions(broker: FollowingBroker) -> None:
    broker.disk.fail_at(0, errno.EIO)
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    assert broker.faults
    broker.loop.advance(1)
    assert not broker.peers.waiting or not broker.positions()


def test_an_append_that_fails_takes_the_directory_offline(
    broker: FollowingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageFault("/d", OSError(errno.EIO, "disk"))

    monkeypatch.setattr(Log, "append_raw", fail)
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    assert broker.log().offline


def test_the_high_watermark_of_a_follower_does_not_decrease(broker: FollowingBroker) -> None:
    """A new leader has a lower one until its followers have fetched."""
    broker.respond(data(0, raw(0, 0, 3), high_watermark=3))
    broker.settle()
    broker.lead(OTHER)
    broker.settle()
    broker.peers.waiting.popleft()
    broker.respond(data(0, high_watermark=1))
    broker.settle()
    assert broker.log().high_watermark == 3


def test_a_log_that_replaces_a_lost_one_is_reported_once_when_the_leader_has_accepted_a_fetch(
    broker: FollowingBroker,
) -> None:
    partition = broker.partition()
    partition.replaces_lost = True
    broker.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    broker.settle()
    assert (broker.replaced, partition.replaces_lost) == ([], True)
    broker.loop.advance(0.1)
    broker.respond()
    broker.settle()
    assert broker.positions() == [(0, 0, 0, -1)]
    broker.respond(data(0))
    broker.settle()
    assert (broker.replaced, partition.replaces_lost) == ([partition], False)
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    assert broker.replaced == [partition]


def test_nothing_is_sent_after_close(broker: FollowingBroker) -> None:
    broker.fetchers.close()
    broker.respond(data(0, raw(0, 0)))
    broker.settle()
    broker.loop.advance(10)
    assert not broker.peers.waiting
    assert broker.log().log_end_offset == 0

"""Rebalance callbacks: assignment, revocation, loss."""

from __future__ import annotations

import threading
from typing import cast

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError
from confluent_kafka import TopicPartition as PartitionOffset

from ottla.base.clock import SystemClock
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.membership import Membership
from ottla.client.parallel.offset_committer import OffsetCommitter
from tests.support.waiting import TIMEOUT_S, wait_until
from tests.unit.client.parallel.fakes import P0, P1, FakeConsumer, add, dispatcher_of, take

PLACES = [PartitionOffset("t", 0), PartitionOffset("t", 1)]


def prepared(
    *, cooperative: bool = False, timeout_s: float = 0.0
) -> tuple[Dispatcher, Membership, FakeConsumer]:
    dispatcher, _, _ = dispatcher_of(assigned=False)
    dispatcher.clock = SystemClock()
    membership = Membership(
        dispatcher, OffsetCommitter(dispatcher), cooperative=cooperative, handover_timeout_s=timeout_s
    )
    return dispatcher, membership, FakeConsumer()


def assign(
    membership: Membership, consumer: FakeConsumer, offsets: list[PartitionOffset] | None = None
) -> None:
    membership.on_assigned(cast(Consumer, consumer), offsets or PLACES)


@pytest.mark.parametrize("cooperative", [False, True])
def test_partitions_start_at_the_committed_offset(cooperative: bool) -> None:
    dispatcher, membership, consumer = prepared(cooperative=cooperative)
    consumer.stored[("t", 1)] = (7, "metadata of another client")
    assign(membership, consumer)
    starts = [("t", 0, OFFSET_INVALID), ("t", 1, 7)]
    name = "incremental_assign" if cooperative else "assign"
    assert consumer.calls == [(name, starts), ("resume", starts)]
    assert dispatcher.scheduler.partitions() == [P0, P1]


@pytest.mark.parametrize("cooperative", [False, True])
def test_an_empty_assignment_sends_no_request(cooperative: bool) -> None:
    _, membership, consumer = prepared(cooperative=cooperative)
    consumer.refusals = [KafkaError._INVALID_ARG]
    membership.on_assigned(cast(Consumer, consumer), [])
    assert consumer.calls == [("incremental_assign" if cooperative else "assign", [])]


def test_a_partition_assigned_while_draining_stays_paused() -> None:
    _, membership, consumer = prepared()
    membership.is_reading = False
    assign(membership, consumer)
    assert [name for name, _ in consumer.calls] == ["assign", "pause"]


def test_committed_offsets_that_cannot_be_read_are_requested_a_few_times_only() -> None:
    _, membership, consumer = prepared()
    consumer.stored[("t", 0)] = (7, "")
    consumer.refusals = [KafkaError._TIMED_OUT]
    assign(membership, consumer, [PartitionOffset("t", 0)])
    assert consumer.calls[0] == ("assign", [("t", 0, 7)])
    consumer.refusals = [KafkaError._TIMED_OUT] * 3
    assign(membership, consumer, [PartitionOffset("t", 0)])
    assert consumer.calls[2] == ("assign", [("t", 0, OFFSET_INVALID)])


def test_a_revocation_waits_for_running_handlers_commits_and_drops_the_rest() -> None:
    dispatcher, membership, consumer = prepared(timeout_s=TIMEOUT_S)
    assign(membership, consumer, [PartitionOffset("t", 0)])
    for offset in range(3):
        add(dispatcher, offset)
    running = take(dispatcher)
    revoking = threading.Thread(target=membership.on_revoked, args=(consumer, [PartitionOffset("t", 0)]))
    revoking.start()
    wait_until(lambda: not running.assignment.open, "its work to be held back")
    with dispatcher.lock:
        assert dispatcher.next_work(running, None) is None, "no more work of that partition"
    revoking.join(TIMEOUT_S)
    assert consumer.stored == {("t", 0): (1, "")}
    assert dispatcher.scheduler.partitions() == []


def test_a_revocation_waits_for_a_limited_time() -> None:
    dispatcher, membership, consumer = prepared(timeout_s=0.01)
    assign(membership, consumer, [PartitionOffset("t", 0)])
    add(dispatcher, 0)
    late = take(dispatcher)
    membership.on_revoked(cast(Consumer, consumer), [PartitionOffset("t", 0)])
    assert dispatcher.scheduler.partitions() == []
    with dispatcher.lock:
        dispatcher.next_work(late, None)
    assert dispatcher.scheduler.progress().ignored == 1
    assert consumer.stored == {}


def test_lost_partitions_are_not_committed() -> None:
    dispatcher, membership, consumer = prepared()
    assign(membership, consumer, [PartitionOffset("t", 0)])
    add(dispatcher, 0)
    with dispatcher.lock:
        dispatcher.next_work(dispatcher.next_work(None, None), None)
    membership.on_lost(cast(Consumer, consumer), [PartitionOffset("t", 0)])
    assert dispatcher.scheduler.partitions() == []
    assert [name for name, _ in consumer.calls] == ["assign", "resume"]


def test_other_partitions_continue_while_one_is_revoked() -> None:
    dispatcher, membership, consumer = prepared()
    assign(membership, consumer)
    add(dispatcher, 0, None, P0)
    add(dispatcher, 0, None, P1)
    membership.on_revoked(cast(Consumer, consumer), [PartitionOffset("t", 0)])
    assert take(dispatcher).assignment.partition == P1

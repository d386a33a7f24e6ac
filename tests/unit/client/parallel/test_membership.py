"""Partitions come with what is known of them, leave after their work and a commit, or are simply gone."""

from __future__ import annotations

import threading
from typing import cast

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from ottla.base.clock import SystemClock
from ottla.client.parallel.commits import Committer
from ottla.client.parallel.exchange import Exchange
from ottla.client.parallel.membership import Membership
from tests.support.waiting import PATIENCE_S, wait_until
from tests.unit.client.parallel.stand_ins import P0, P1, FakeConsumer, add, exchange_of, take

PLACES = [Place("t", 0), Place("t", 1)]


def prepared(
    *, cooperative: bool = False, timeout_s: float = 0.0
) -> tuple[Exchange, Membership, FakeConsumer]:
    exchange, _, _ = exchange_of(assigned=False)
    exchange.clock = SystemClock()
    membership = Membership(
        exchange, Committer(exchange), cooperative=cooperative, handover_timeout_s=timeout_s
    )
    return exchange, membership, FakeConsumer()


def assign(membership: Membership, consumer: FakeConsumer, places: list[Place] | None = None) -> None:
    membership.assigned(cast(Consumer, consumer), places or PLACES)


@pytest.mark.parametrize("cooperative", [False, True])
def test_partitions_start_where_the_group_left_them(cooperative: bool) -> None:
    exchange, membership, consumer = prepared(cooperative=cooperative)
    consumer.stored[("t", 1)] = (7, "somebody else's")
    assign(membership, consumer)
    starts = [("t", 0, OFFSET_INVALID), ("t", 1, 7)]
    name = "incremental_assign" if cooperative else "assign"
    assert consumer.calls == [(name, starts), ("resume", starts)]
    assert exchange.scheduler.partitions() == [P0, P1]


@pytest.mark.parametrize("cooperative", [False, True])
def test_an_empty_assignment_asks_nothing_of_the_cluster(cooperative: bool) -> None:
    _, membership, consumer = prepared(cooperative=cooperative)
    consumer.refusals = [KafkaError._INVALID_ARG]
    membership.assigned(cast(Consumer, consumer), [])
    assert consumer.calls == [("incremental_assign" if cooperative else "assign", [])]


def test_a_partition_that_comes_while_draining_stays_paused() -> None:
    _, membership, consumer = prepared()
    membership.is_reading = False
    assign(membership, consumer)
    assert [name for name, _ in consumer.calls] == ["assign", "pause"]


def test_a_cluster_that_does_not_tell_the_offsets_is_asked_again_and_then_left_alone() -> None:
    _, membership, consumer = prepared()
    consumer.stored[("t", 0)] = (7, "")
    consumer.refusals = [KafkaError._TIMED_OUT]
    assign(membership, consumer, [Place("t", 0)])
    assert consumer.calls[0] == ("assign", [("t", 0, 7)])
    consumer.refusals = [KafkaError._TIMED_OUT] * 3
    assign(membership, consumer, [Place("t", 0)])
    assert consumer.calls[2] == ("assign", [("t", 0, OFFSET_INVALID)])


def test_revoked_waits_for_what_runs_commits_and_drops_the_rest() -> None:
    exchange, membership, consumer = prepared(timeout_s=PATIENCE_S)
    assign(membership, consumer, [Place("t", 0)])
    for offset in range(3):
        add(exchange, offset)
    running = take(exchange)
    revoking = threading.Thread(target=membership.revoked, args=(consumer, [Place("t", 0)]))
    revoking.start()
    wait_until(lambda: not running.assigned.open, "its work to be held back")
    with exchange.lock:
        assert exchange.trade(running, None) is None, "no more work of that partition"
    revoking.join(PATIENCE_S)
    assert consumer.stored == {("t", 0): (1, "")}
    assert exchange.scheduler.partitions() == []


def test_revoked_does_not_wait_for_ever() -> None:
    exchange, membership, consumer = prepared(timeout_s=0.01)
    assign(membership, consumer, [Place("t", 0)])
    add(exchange, 0)
    late = take(exchange)
    membership.revoked(cast(Consumer, consumer), [Place("t", 0)])
    assert exchange.scheduler.partitions() == []
    with exchange.lock:
        exchange.trade(late, None)
    assert exchange.scheduler.progress().ignored == 1
    assert consumer.stored == {}


def test_lost_partitions_are_not_committed() -> None:
    exchange, membership, consumer = prepared()
    assign(membership, consumer, [Place("t", 0)])
    add(exchange, 0)
    with exchange.lock:
        exchange.trade(exchange.trade(None, None), None)
    membership.lost(cast(Consumer, consumer), [Place("t", 0)])
    assert exchange.scheduler.partitions() == []
    assert [name for name, _ in consumer.calls] == ["assign", "resume"]


def test_other_partitions_go_on_while_one_leaves() -> None:
    exchange, membership, consumer = prepared()
    assign(membership, consumer)
    add(exchange, 0, None, P0)
    add(exchange, 0, None, P1)
    membership.revoked(cast(Consumer, consumer), [Place("t", 0)])
    assert take(exchange).assigned.partition == P1

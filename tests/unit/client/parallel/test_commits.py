"""Commits: one on its way at a time, refusals offered again, metadata shrunk to what the cluster takes."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from ottla.client.parallel.commits import Committer
from ottla.client.parallel.exchange import Exchange
from tests.unit.client.parallel.stand_ins import P0, FakeConsumer, add, exchange_of, take


def prepared(*, finished: int, read: int) -> tuple[Exchange, Committer, FakeConsumer]:
    exchange, _, _ = exchange_of()
    for offset in range(read):
        add(exchange, offset)
    with exchange.lock:
        for work in [exchange.trade(None, None) for _ in range(read)][:finished]:
            assert work is not None
            exchange.scheduler.finish(work)
    return exchange, Committer(exchange), FakeConsumer()


def begin(committer: Committer, consumer: FakeConsumer) -> None:
    committer.begin(cast(Consumer, consumer))


def test_one_commit_is_on_its_way_at_a_time() -> None:
    exchange, committer, consumer = prepared(finished=1, read=2)
    begin(committer, consumer)
    add(exchange, 2)
    with exchange.lock:
        exchange.trade(take_nowait(exchange), None)
    begin(committer, consumer)
    assert consumer.calls == [("commit_async", [("t", 0, 1)])]
    committer.answered(None, [Place("t", 0, 1)])
    assert exchange.scheduler.progress().partitions[0].committed_offset == 1
    begin(committer, consumer)
    assert len(consumer.calls) == 2


def take_nowait(exchange: Exchange):  # type: ignore[no-untyped-def]
    return exchange.trade(None, None)


def test_nothing_new_is_no_commit() -> None:
    _, committer, consumer = prepared(finished=0, read=2)
    begin(committer, consumer)
    committer.finish(cast(Consumer, consumer), [P0])
    assert consumer.calls == []


def test_a_refused_commit_is_offered_again() -> None:
    _, committer, consumer = prepared(finished=1, read=1)
    begin(committer, consumer)
    committer.answered(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [Place("t", 0, 1)])
    begin(committer, consumer)
    assert consumer.calls == [("commit_async", [("t", 0, 1)])] * 2


def test_a_commit_that_cannot_even_be_sent_is_offered_again() -> None:
    _, committer, consumer = prepared(finished=1, read=1)
    consumer.refusals = [KafkaError._STATE]
    begin(committer, consumer)
    begin(committer, consumer)
    assert consumer.stored == {("t", 0): (1, "")}


def test_a_waiting_commit_that_is_refused_is_not_repeated_for_ever() -> None:
    _, committer, consumer = prepared(finished=1, read=1)
    consumer.refusals = [KafkaError.ILLEGAL_GENERATION]
    committer.finish(cast(Consumer, consumer), [P0])
    assert len(consumer.calls) == 1


def test_metadata_shrinks_until_the_cluster_takes_it() -> None:
    exchange, committer, consumer = prepared(finished=0, read=1)
    for offset in range(1, 400):
        add(exchange, offset)
        work = take(exchange)
        if offset % 3 == 0:
            with exchange.lock:
                exchange.scheduler.finish(work)
    consumer.refusals = [KafkaError.OFFSET_METADATA_TOO_LARGE] * 6
    committer.finish(cast(Consumer, consumer), [P0])
    assert len(consumer.calls) == 7
    offset, metadata = consumer.stored[("t", 0)]
    assert offset == 0
    assert 0 < len(metadata) <= 4096 / 2**6

"""Commits: one in flight, repeated after failures, shortened metadata."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as PartitionOffset

from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.offset_committer import OffsetCommitter
from tests.unit.client.parallel.fakes import P0, FakeConsumer, add, dispatcher_of, take


def prepared(*, finished: int, read: int) -> tuple[Dispatcher, OffsetCommitter, FakeConsumer]:
    dispatcher, _, _ = dispatcher_of()
    for offset in range(read):
        add(dispatcher, offset)
    with dispatcher.lock:
        for work in [dispatcher.next_work(None, None) for _ in range(read)][:finished]:
            assert work is not None
            dispatcher.scheduler.finish(work)
    return dispatcher, OffsetCommitter(dispatcher), FakeConsumer()


def begin(committer: OffsetCommitter, consumer: FakeConsumer) -> None:
    committer.begin(cast(Consumer, consumer))


def test_one_commit_is_in_flight_at_a_time() -> None:
    dispatcher, committer, consumer = prepared(finished=1, read=2)
    begin(committer, consumer)
    add(dispatcher, 2)
    with dispatcher.lock:
        dispatcher.next_work(take_nowait(dispatcher), None)
    begin(committer, consumer)
    assert consumer.calls == [("commit_async", [("t", 0, 1)])]
    committer.on_commit(None, [PartitionOffset("t", 0, 1)])
    assert dispatcher.scheduler.progress().partitions[0].committed_offset == 1
    begin(committer, consumer)
    assert len(consumer.calls) == 2


def take_nowait(dispatcher: Dispatcher):  # type: ignore[no-untyped-def]
    return dispatcher.next_work(None, None)


def test_unchanged_offsets_are_not_committed() -> None:
    _, committer, consumer = prepared(finished=0, read=2)
    begin(committer, consumer)
    committer.finish(cast(Consumer, consumer), [P0])
    assert consumer.calls == []


def test_a_failed_commit_is_repeated() -> None:
    _, committer, consumer = prepared(finished=1, read=1)
    begin(committer, consumer)
    committer.on_commit(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [PartitionOffset("t", 0, 1)])
    begin(committer, consumer)
    assert consumer.calls == [("commit_async", [("t", 0, 1)])] * 2


def test_a_commit_that_cannot_be_sent_is_repeated() -> None:
    _, committer, consumer = prepared(finished=1, read=1)
    consumer.refusals = [KafkaError._STATE]
    begin(committer, consumer)
    begin(committer, consumer)
    assert consumer.stored == {("t", 0): (1, "")}


def test_a_synchronous_commit_that_fails_is_not_repeated_without_end() -> None:
    _, committer, consumer = prepared(finished=1, read=1)
    consumer.refusals = [KafkaError.ILLEGAL_GENERATION]
    committer.finish(cast(Consumer, consumer), [P0])
    assert len(consumer.calls) == 1


def test_metadata_is_shortened_until_the_cluster_accepts_it() -> None:
    dispatcher, committer, consumer = prepared(finished=0, read=1)
    for offset in range(1, 400):
        add(dispatcher, offset)
        work = take(dispatcher)
        if offset % 3 == 0:
            with dispatcher.lock:
                dispatcher.scheduler.finish(work)
    consumer.refusals = [KafkaError.OFFSET_METADATA_TOO_LARGE] * 6
    committer.finish(cast(Consumer, consumer), [P0])
    assert len(consumer.calls) == 7
    offset, metadata = consumer.stored[("t", 0)]
    assert offset == 0
    assert 0 < len(metadata) <= 4096 / 2**6

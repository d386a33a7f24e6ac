"""Markers and completion of prepared transactions."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.completion import RETRY_MS
from tests.support.txn_coordinator import T0, T1, T2, TxnBench


def test_markers_carry_the_producer_the_coordinator_and_the_outcome() -> None:
    bench = TxnBench()
    producer = bench.opened(T1, T0)
    bench.commit(producer)
    ((marker, _),) = bench.markers.on_the_way
    assert marker == (producer.id, producer.epoch + 1, 7, True, [T0, T1], 2)


def test_no_marker_is_sent_before_the_decision_is_committed() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.hold_commits()
    bench.commit(producer)
    assert bench.state() == "PrepareCommit"
    assert not bench.markers.on_the_way
    bench.release_commits()
    assert len(bench.markers.on_the_way) == 1


def test_a_decision_that_is_lost_sends_nothing() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.hold_commits()
    bench.commit(producer)
    for settled in bench.bench.held:
        settled(ErrorCode.NOT_COORDINATOR)
    assert not bench.markers.on_the_way


def test_a_transaction_is_complete_only_when_every_partition_has_its_marker() -> None:
    bench = TxnBench()
    bench.commit(bench.opened(T0, T1, T2))
    bench.markers.acknowledge(ErrorCode.NONE, T0, T2)
    bench.bench.advance(0)
    assert bench.state() == "PrepareCommit"
    bench.bench.advance(RETRY_MS)
    ((marker, _),) = bench.markers.on_the_way
    assert marker.partitions == [T1]
    bench.complete()
    assert bench.state() == "CompleteCommit"
    assert sorted(each for each, _ in bench.markers.written) == [T0, T1, T2]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_marker_that_fails_is_sent_again_for_as_long_as_it_takes(error: ErrorCode) -> None:
    bench = TxnBench()
    bench.abort(bench.opened(T0))
    for _ in range(5):
        bench.markers.acknowledge(error)
        bench.bench.advance(RETRY_MS - 1)
        assert not bench.markers.on_the_way
        bench.bench.advance(1)
        assert bench.state() == "PrepareAbort"
    bench.complete()
    assert bench.state() == "CompleteAbort"


def test_a_partition_with_a_newer_epoch_needs_no_marker() -> None:
    bench = TxnBench()
    bench.commit(bench.opened(T0))
    bench.markers.acknowledge(ErrorCode.INVALID_PRODUCER_EPOCH)
    bench.bench.advance(0)
    assert bench.state() == "CompleteCommit"


def test_partitions_of_deleted_topics_need_no_marker() -> None:
    bench = TxnBench(topics={"t": 3, "gone": 1})
    bench.commit(bench.opened(T0, TopicPartition("gone", 0)))
    bench.markers.acknowledge(ErrorCode.NONE, T0)
    bench.delete_topic("gone")
    bench.bench.advance(RETRY_MS)
    assert not bench.markers.on_the_way
    assert bench.state() == "CompleteCommit"


def test_a_transaction_completes_when_all_its_topics_are_deleted() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.delete_topic("t")
    bench.commit(producer)
    bench.bench.advance(0)
    assert bench.state() == "CompleteCommit"


@pytest.mark.parametrize("committed", [True, False])
def test_another_coordinator_completes_prepared_transactions(committed: bool) -> None:
    bench = TxnBench()
    producer = bench.opened(T0, T1)
    bench.end(producer, committed=committed)
    bench.markers.acknowledge(ErrorCode.NONE, T0)
    bench.restart()
    ((marker, _),) = bench.markers.on_the_way
    assert marker == (producer.id, producer.epoch + 1, 8, committed, [T0, T1], 2)
    bench.complete()
    assert bench.state() == ("CompleteCommit" if committed else "CompleteAbort")


def test_an_open_transaction_stays_open_under_another_coordinator() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.restart()
    assert bench.state() == "Ongoing"
    assert not bench.markers.on_the_way
    assert bench.commit(producer).error is ErrorCode.NONE


def test_results_for_a_former_coordinator_are_ignored() -> None:
    bench = TxnBench()
    bench.commit(bench.opened(T0))
    (sent,) = bench.markers.on_the_way
    old = bench.machine
    bench.restart()
    sent.callback({T0: ErrorCode.NONE})
    bench.bench.advance(0)
    assert old is not bench.machine
    assert bench.state() == "PrepareCommit"


def test_a_repeated_result_counts_once() -> None:
    bench = TxnBench()
    bench.commit(bench.opened(T0, T1))
    (sent,) = bench.markers.on_the_way
    sent.callback({T0: ErrorCode.NONE})
    bench.bench.advance(RETRY_MS)
    sent.callback({T0: ErrorCode.NONE, T1: ErrorCode.NONE})
    bench.bench.advance(0)
    assert bench.state() == "PrepareCommit"


def test_markers_written_at_once_complete_the_transaction_too() -> None:
    bench = TxnBench()
    bench.markers.send = lambda marker, callback: callback(dict.fromkeys(marker.partitions, ErrorCode.NONE))  # type: ignore[method-assign]
    bench.commit(bench.opened(T0))
    bench.bench.advance(0)
    assert bench.state() == "CompleteCommit"


def test_results_after_unloading_are_ignored() -> None:
    bench = TxnBench()
    bench.commit(bench.opened(T0))
    bench.machine.on_unloaded()
    bench.markers.acknowledge()
    bench.bench.advance(RETRY_MS)
    assert bench.state() == "PrepareCommit"


def test_a_completion_that_could_not_be_appended_is_decided_again() -> None:
    """The runtime runs the decision of a timer again if too few replicas were in sync."""
    bench = TxnBench()
    bench.commit(bench.opened(T0))
    completion = bench.machine._completion
    first, second = completion._complete("id"), completion._complete("id")
    assert len(first.records) == len(second.records) == 1

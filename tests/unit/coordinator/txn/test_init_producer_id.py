"""InitProducerId: new producers, fencing, recovery after errors, and exhausted epochs."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.txn.init_producer_id import InitParameters
from ottla.coordinator.txn.transaction import LAST_CLIENT_EPOCH, NeedsProducerId, Producer
from tests.support.txn_coordinator import T0, T1, TxnBench


def test_a_new_id_starts_with_epoch_0_and_a_new_producer_id() -> None:
    bench = TxnBench()
    one, two = bench.started("one"), bench.started("two")
    assert (one.epoch, two.epoch) == (0, 0)
    assert one.id != two.id
    assert bench.state("one") == "Empty"


def test_a_new_id_needs_a_producer_id() -> None:
    with pytest.raises(NeedsProducerId):
        TxnBench().machine.init_producer_id("id", InitParameters(1000))


def test_every_start_raises_the_epoch_and_fences_the_one_before() -> None:
    bench = TxnBench()
    first = bench.started()
    second = bench.started()
    assert second == Producer(first.id, first.epoch + 1)
    assert bench.add(first, T0) is ErrorCode.PRODUCER_FENCED
    assert bench.commit(first).error is ErrorCode.PRODUCER_FENCED
    assert bench.add(second, T0) is ErrorCode.NONE


def test_an_open_transaction_is_aborted_before_another_producer_starts() -> None:
    bench = TxnBench()
    first = bench.opened(T0)
    assert bench.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.state() == "PrepareAbort"
    assert bench.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    (sent,) = bench.markers.on_the_way
    assert sent.marker[:4] == (first.id, first.epoch + 1, 7, False)
    bench.complete()
    assert bench.state() == "CompleteAbort"
    assert bench.started() == Producer(first.id, first.epoch + 2)
    assert bench.commit(first).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 1])
def test_in_the_older_protocol_the_fence_raises_the_epoch_too(version: int) -> None:
    bench = TxnBench(version=version)
    first = bench.opened(T0)
    assert bench.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.markers.on_the_way[0].marker.producer_epoch == first.epoch + 1
    bench.complete()
    assert bench.commit(first, version=0).error is ErrorCode.PRODUCER_FENCED
    assert bench.started() == Producer(first.id, first.epoch + 2)


@pytest.mark.parametrize("committed", [True, False])
def test_a_start_waits_for_an_end_that_is_decided(committed: bool) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.end(producer, committed=committed)
    assert bench.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.complete()
    assert bench.init().error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [
        (900_000, ErrorCode.NONE),
        (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (-1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_timeouts_are_bounded(timeout_ms: int, error: ErrorCode) -> None:
    assert TxnBench().init(timeout_ms=timeout_ms).error is error


def test_the_id_must_not_be_empty() -> None:
    assert TxnBench().init("").error is ErrorCode.INVALID_REQUEST


def test_a_start_may_change_the_timeout() -> None:
    bench = TxnBench()
    bench.started(timeout_ms=1000)
    bench.started(timeout_ms=2000)
    assert bench.transaction().timeout_ms == 2000


# Recovery after an error (KIP-360)


def test_a_producer_that_names_itself_gets_the_next_epoch() -> None:
    bench = TxnBench()
    producer = bench.started()
    assert bench.started(expected=producer) == Producer(producer.id, 1)


def test_a_lost_response_is_repeated() -> None:
    bench = TxnBench()
    producer = bench.started()
    response = bench.started(expected=producer)
    assert bench.started(expected=producer) == response
    assert bench.started(expected=producer) == response


def test_after_a_restart_a_lost_response_is_not_repeated() -> None:
    bench = TxnBench()
    producer = bench.started()
    bench.started(expected=producer)
    bench.restart()
    assert bench.init(expected=producer).error is ErrorCode.PRODUCER_FENCED


def test_a_producer_cannot_continue_after_another_has_started() -> None:
    bench = TxnBench()
    old = bench.started()
    bench.started()
    assert bench.init(expected=old).error is ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_cannot_end_the_transaction_of_its_successor() -> None:
    """Apache Kafka aborts the transaction first."""
    bench = TxnBench()
    old = bench.started()
    new = bench.opened(T0)
    assert bench.init(expected=old).error is ErrorCode.PRODUCER_FENCED
    assert bench.state() == "Ongoing"
    assert bench.commit(new).error is ErrorCode.NONE


def test_a_delayed_start_does_not_abort_the_current_transaction() -> None:
    bench = TxnBench()
    first = bench.started()
    now = bench.started(expected=first)
    bench.add(now, T0)
    assert bench.init(expected=first).error is ErrorCode.PRODUCER_FENCED
    assert bench.commit(now).error is ErrorCode.NONE


def test_another_producer_id_is_fenced() -> None:
    bench = TxnBench()
    producer = bench.started()
    assert bench.init(expected=Producer(producer.id + 1, 0)).error is ErrorCode.PRODUCER_FENCED


def test_an_expired_id_is_created_again_for_its_old_producer() -> None:
    assert TxnBench().started(expected=Producer(5, 3)).epoch == 0


def test_a_producer_with_an_open_transaction_continues_after_its_abort() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    assert bench.init(expected=producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.complete()
    assert bench.init(expected=producer).error is ErrorCode.NONE


# Exhausted epochs


def test_when_epochs_run_out_a_new_producer_id_follows() -> None:
    bench = TxnBench()
    producer = bench.started()
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    fresh = bench.started()
    assert fresh.epoch == 0
    assert fresh.id != producer.id
    assert bench.transaction().previous_producer_id == producer.id


def test_the_last_epoch_but_one_is_followed_by_the_last() -> None:
    bench = TxnBench()
    producer = bench.started()
    bench.put(producer_epoch=LAST_CLIENT_EPOCH - 1)
    assert bench.started() == Producer(producer.id, LAST_CLIENT_EPOCH)


def test_another_producer_id_with_the_last_epoch_is_fenced_after_a_rotation() -> None:
    bench = TxnBench()
    producer = bench.started()
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    bench.started(expected=Producer(producer.id, LAST_CLIENT_EPOCH))
    other = Producer(producer.id + 500, LAST_CLIENT_EPOCH)
    assert bench.init(expected=other).error is ErrorCode.PRODUCER_FENCED


def test_a_lost_response_with_a_new_producer_id_is_repeated() -> None:
    bench = TxnBench()
    producer = bench.started()._replace(epoch=LAST_CLIENT_EPOCH)
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    fresh = bench.started(expected=producer)
    assert bench.started(expected=producer) == fresh


def test_a_producer_with_a_new_producer_id_fences_the_previous_one() -> None:
    bench = TxnBench()
    producer = bench.started()._replace(epoch=LAST_CLIENT_EPOCH)
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    bench.started()
    assert bench.init(expected=producer).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_with_the_last_epoch_can_be_fenced(version: int) -> None:
    """Its abort has the highest epoch, which no client ever gets."""
    bench = TxnBench(version=version)
    producer = bench.started()._replace(epoch=LAST_CLIENT_EPOCH)
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    assert bench.add(producer, T0, T1) is ErrorCode.NONE
    assert bench.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.markers.on_the_way[0].marker.producer_epoch == 32767
    bench.complete()
    assert bench.abort(producer, version=version).error is ErrorCode.PRODUCER_FENCED
    expected = producer if version == 2 else None
    fresh = bench.started(expected=expected)
    assert (fresh.id != producer.id, fresh.epoch) == (True, 0)
    again = bench.started(expected=expected)
    assert again == (fresh if version == 2 else (fresh.id, 1))

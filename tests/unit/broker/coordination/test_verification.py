"""Whether a partition is part of a transaction: asked in order, repeated while the last one ends."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.coordinator.txn.transaction import Producer
from ottla.storage.producers.producer_state import NOT_REQUIRED, Verification
from tests.support.txn_stage import ID, WHERE, Stage


def code_of(promise: Promise[Verification | None]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        promise.result()
    return caught.value.code


def test_the_first_batch_adds_its_partition_to_the_transaction() -> None:
    stage = Stage()
    asked = stage.ask()
    assert not asked.done
    stage.run()
    assert stage.append(0, asked.result()) == 0
    assert stage.ask(1).result() is None
    assert stage.append(1, None) == 1


def test_an_older_client_must_have_added_the_partition() -> None:
    stage = Stage()
    abortable = stage.ask(add=False)
    stage.run()
    assert code_of(abortable) is ErrorCode.TRANSACTION_ABORTABLE
    not_abortable = stage.ask(add=False, abortable=False)
    stage.run()
    assert code_of(not_abortable) is ErrorCode.INVALID_TXN_STATE
    stage.runtime.write(0, lambda machine: machine.add_partitions(ID, stage.producer, frozenset({WHERE})))
    stage.run()
    asked = stage.ask(add=False)
    stage.run()
    assert stage.append(0, asked.result()) == 0


def test_a_fenced_producer_gets_invalid_producer_epoch() -> None:
    stage = Stage()
    stage.producer = Producer(stage.producer.id, stage.producer.epoch - 1)
    asked = stage.ask()
    stage.run()
    assert code_of(asked) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_that_follow_wait_for_those_before() -> None:
    stage = Stage()
    order: list[int] = []
    for sequence in range(3):
        stage.ask(sequence).when_done(
            lambda verification, _, sequence=sequence: order.append(stage.append(sequence, verification))  # type: ignore[misc]
        )
    assert order == []
    stage.run()
    assert order == [0, 1, 2]
    assert stage.ask(3).result() is None


def test_adding_is_retried_while_the_previous_transaction_ends() -> None:
    stage = Stage()
    first = stage.ask()
    stage.run()
    stage.append(0, first.result())
    stage.end()
    asked = stage.ask()
    stage.run()
    assert not asked.done
    stage.clock.now += 3
    stage.run()
    assert not asked.done
    stage.markers.arrive()
    stage.run()
    stage.clock.now += 20
    stage.run()
    assert asked.result() is not None


def test_the_retries_are_limited() -> None:
    stage = Stage()
    first = stage.ask()
    stage.run()
    stage.append(0, first.result())
    stage.end()
    asked = stage.ask()
    for _ in range(100):
        stage.run()
        stage.clock.now += 2
    assert code_of(asked) is ErrorCode.CONCURRENT_TRANSACTIONS
    later = stage.ask()
    stage.markers.arrive()
    stage.run()
    stage.clock.now += 20
    stage.run()
    assert later.result() is not None


def test_nothing_is_verified_if_it_is_disabled_but_partitions_are_added() -> None:
    stage = Stage(**{"transaction.partition.verification.enable": "false"})
    assert stage.ask(add=False).result() is NOT_REQUIRED
    assert not stage.ask(add=True).done


def test_a_partition_that_is_not_here_and_a_coordinator_that_is_not_here() -> None:
    stage = Stage()
    nowhere = stage.verifier.verify(ID, stage.producer, TopicPartition("u", 0), 0, add=True, abortable=True)
    assert code_of(nowhere) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stage.runtime.resign(0)
    assert code_of(stage.ask()) is ErrorCode.NOT_COORDINATOR

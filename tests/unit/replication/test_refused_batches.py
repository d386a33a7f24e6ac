"""Refused batches of idempotent producers: what follows them is refused in the same way, until they are sent again."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.refused_batches import VALID_MS, RefusedBatches
from ottla.storage.producers.producer_state import ProducerState

PRODUCER, NOW_MS = 5, 1_700_000_000_000
LEADER, ISR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS


def batch(sequence: int, *, epoch: int = 0, producer_id: int = PRODUCER) -> bytes:
    return bytes(
        build_batch(
            [NewRecord(None, b"v")] * 2, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
    )


def written(*sequences: int, epoch: int = 0) -> ProducerState:
    """The producers of a log with batches of two records."""
    state = ProducerState(86_400_000)
    for sequence in sequences:
        state.append_batch(
            PRODUCER,
            epoch,
            sequence + 1,
            base_offset=sequence,
            last_offset=sequence + 1,
            timestamp=NOW_MS,
            transactional=False,
        )
    return state


@pytest.fixture
def refused() -> RefusedBatches:
    """Batches of a producer whose sequence numbers 10 and 12 were refused."""
    found = RefusedBatches()
    found.add(batch(10), LEADER, NOW_MS)
    found.add(batch(12), ISR, NOW_MS)
    return found


def test_a_batch_gets_the_error_of_the_one_that_is_missing_before_it(refused: RefusedBatches) -> None:
    assert refused.error_of_predecessor(batch(14), written(8), NOW_MS) is LEADER
    assert refused.error_of_predecessor(batch(14), written(8, 10), NOW_MS) is ISR


def test_a_refused_batch_that_is_sent_again_waits_for_the_one_before_it(refused: RefusedBatches) -> None:
    """Both were refused, and only the first one has been refused again meanwhile."""
    assert refused.error_of_predecessor(batch(10), written(8), NOW_MS) is None
    refused.add(batch(10), ISR, NOW_MS)
    assert refused.error_of_predecessor(batch(12), written(8), NOW_MS) is ISR
    assert refused.error_of_predecessor(batch(12), ProducerState(86_400_000), NOW_MS) is ISR
    assert refused.error_of_predecessor(batch(10), written(8), NOW_MS) is None
    assert refused.error_of_predecessor(batch(12), written(8, 10), NOW_MS) is None
    assert not len(refused)


def test_a_batch_whose_predecessor_is_in_the_log_is_accepted(refused: RefusedBatches) -> None:
    """The response to the first attempt was lost, and the second attempt was refused."""
    assert refused.error_of_predecessor(batch(14), written(8, 10, 12), NOW_MS) is None


def test_a_gap_that_was_not_refused_here_is_left_to_the_log(refused: RefusedBatches) -> None:
    assert refused.error_of_predecessor(batch(14), written(6), NOW_MS) is None


def test_a_refused_batch_is_accepted_and_forgotten_when_it_is_sent_again(refused: RefusedBatches) -> None:
    assert refused.error_of_predecessor(batch(10), written(8), NOW_MS) is None
    assert refused.error_of_predecessor(batch(12), written(8, 10), NOW_MS) is None
    assert len(refused) == 0


@pytest.mark.parametrize("known", [written(), written(30, epoch=-1)])
def test_a_producer_that_the_log_does_not_know_begins_with_its_first_batch(known: ProducerState) -> None:
    refused = RefusedBatches()
    refused.add(batch(0), LEADER, NOW_MS)
    assert refused.error_of_predecessor(batch(2), known, NOW_MS) is LEADER
    assert refused.error_of_predecessor(batch(0), known, NOW_MS) is None


def test_other_epochs_and_producers_are_not_affected(refused: RefusedBatches) -> None:
    assert refused.error_of_predecessor(batch(14, epoch=1), written(8), NOW_MS) is None
    assert refused.error_of_predecessor(batch(14, producer_id=6), written(8), NOW_MS) is None
    refused.add(batch(0, epoch=1), LEADER, NOW_MS)
    assert refused.error_of_predecessor(batch(14), written(8), NOW_MS) is None


def test_a_batch_that_is_not_sent_again_in_time_is_forgotten(refused: RefusedBatches) -> None:
    assert refused.error_of_predecessor(batch(14), written(8), NOW_MS + VALID_MS) is LEADER
    assert refused.error_of_predecessor(batch(14), written(8), NOW_MS + VALID_MS + 1) is None
    assert len(refused) == 0


def test_what_is_no_batch_of_a_producer_is_ignored() -> None:
    refused = RefusedBatches()
    refused.add(b"short", LEADER, NOW_MS)
    refused.add(batch(-1, epoch=-1, producer_id=-1), LEADER, NOW_MS)
    assert len(refused) == 0
    assert refused.error_of_predecessor(b"short", written(), NOW_MS) is None


def test_memory_is_limited() -> None:
    refused = RefusedBatches()
    for producer_id in range(1000):
        for sequence in range(0, 40, 2):
            refused.add(batch(sequence, producer_id=producer_id), LEADER, NOW_MS)
    assert len(refused) == 100
    assert len(refused._producers[999].errors) == 5


def test_other_refused_batches_are_remembered_when_one_is_sent_again(refused: RefusedBatches) -> None:
    assert refused.error_of_predecessor(batch(10), written(8), NOW_MS) is None
    assert refused.error_of_predecessor(batch(14), written(8, 10), NOW_MS) is ISR


def test_the_first_producer_id_is_zero() -> None:
    refused = RefusedBatches()
    refused.add(batch(0, producer_id=0), LEADER, NOW_MS)
    assert refused.error_of_predecessor(batch(2, producer_id=0), ProducerState(86_400_000), NOW_MS) is LEADER

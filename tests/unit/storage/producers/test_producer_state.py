from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.storage.producers.producer_state import CompletedTxn, Duplicate, ProducerState, Verification

PID = 7
DAY_MS = 86_400_000
SEQUENCE_MAX = 2**31 - 1


def write(
    state: ProducerState,
    first: int,
    count: int = 1,
    *,
    producer: int = PID,
    epoch: int = 0,
    transactional: bool = False,
    timestamp: int = 0,
) -> int:
    """Check and append a batch; returns its base offset."""
    last = (first + count - 1) & SEQUENCE_MAX
    assert state.check(producer, epoch, first, last, transactional=transactional) is None
    base = state.end_offset
    state.append_batch(
        producer,
        epoch,
        last,
        base_offset=base,
        last_offset=base + count - 1,
        timestamp=timestamp,
        transactional=transactional,
    )
    return base


def end(
    state: ProducerState, producer: int = PID, *, epoch: int = 0, aborted: bool = True
) -> CompletedTxn | None:
    return state.append_marker(producer, epoch, 1, offset=state.end_offset, timestamp=0, aborted=aborted)


def refusal(state: ProducerState, epoch: int, first: int, last: int, **kind: bool) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        state.check(PID, epoch, first, last, **kind)
    return caught.value.code


@pytest.fixture
def state() -> ProducerState:
    return ProducerState(DAY_MS)


def test_an_unknown_producer_may_start_anywhere(state: ProducerState) -> None:
    write(state, 1234, 3)
    write(state, 1237)


def test_a_gap_and_a_step_back_are_out_of_order(state: ProducerState) -> None:
    write(state, 0, 3)
    assert refusal(state, 0, 4, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(state, 0, 1, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_five_batches_are_remembered(state: ProducerState) -> None:
    offsets = [write(state, 2 * number, 2, timestamp=100 + number) for number in range(6)]
    for number in range(1, 6):
        found = state.check(PID, 0, 2 * number, 2 * number + 1)
        assert found == Duplicate(offsets[number], offsets[number] + 1, 100 + number)
    assert refusal(state, 0, 0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_has_exactly_the_same_sequences(state: ProducerState) -> None:
    write(state, 0, 4)
    assert refusal(state, 0, 0, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(state, 0, 1, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around(state: ProducerState) -> None:
    base = write(state, SEQUENCE_MAX - 1, 4)
    assert state.check(PID, 0, SEQUENCE_MAX - 1, 1) == Duplicate(base, base + 3, 0)
    write(state, 2)
    other = ProducerState(DAY_MS)
    write(other, SEQUENCE_MAX)
    write(other, 0)


def test_epochs(state: ProducerState) -> None:
    write(state, 0, 3, epoch=4)
    assert refusal(state, 3, 3, 3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(state, 5, 3, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(state, 0, epoch=5)
    assert refusal(state, 4, 0, 2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_epoch_known_from_a_marker_starts_at_zero(state: ProducerState) -> None:
    end(state, epoch=3)
    assert refusal(state, 3, 1, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(state, 0, epoch=3)


def test_a_transaction_with_its_own_epoch_starts_at_zero(state: ProducerState) -> None:
    mode = {"transactional": True, "epoch_per_transaction": True}
    assert refusal(state, 0, 5, 5, **mode) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(PID, 0, 0, 0, **mode) is None
    write(state, 0, transactional=True)
    assert state.check(PID, 0, 1, 1, **mode) is None
    end(state, epoch=1)
    assert refusal(state, 1, 1, 1, **mode) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_coordinators_batches_have_no_sequence(state: ProducerState) -> None:
    write(state, 0, 3, epoch=2)
    assert state.check(PID, 2, -1, -1) is None
    assert refusal(state, 1, -1, -1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_outside_of_the_open_transaction_is_refused(state: ProducerState) -> None:
    write(state, 0, transactional=True)
    assert refusal(state, 0, 1, 1) is ErrorCode.INVALID_TXN_STATE
    assert state.check(PID, 0, 1, 1, transactional=True) is None


def test_markers_are_checked(state: ProducerState) -> None:
    state.check_marker(PID, 0, 0)
    state.append_marker(PID, 2, 5, offset=0, timestamp=0, aborted=False)
    state.check_marker(PID, 2, 5)
    for epoch, coordinator, code in (
        (1, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(ApiError) as caught:
            state.check_marker(PID, epoch, coordinator)
        assert caught.value.code is code


def test_interleaved_transactions(state: ProducerState) -> None:
    """The offsets of a run against Apache Kafka: 3 opens, 4 opens and aborts, 3 goes on and aborts."""
    state.end_offset = 0xFF
    write(state, 0, producer=3, transactional=True)
    write(state, 0, producer=4, transactional=True)
    assert state.first_unstable_offset == 0xFF
    write(state, 1, producer=3, transactional=True)
    assert end(state, 4) == CompletedTxn(4, 0x100, 0x102, 0xFF, True)
    assert state.first_unstable_offset == 0xFF
    assert end(state, 3) == CompletedTxn(3, 0xFF, 0x103, 0x104, True)


def test_readers_wait_until_the_marker_is_replicated(state: ProducerState) -> None:
    write(state, 0, transactional=True)
    write(state, 0, producer=8, transactional=True)
    end(state, 8)
    end(state, aborted=False)
    assert state.first_unstable_offset == 0
    state.high_watermark_moved(3)
    assert state.first_unstable_offset == 0
    state.high_watermark_moved(4)
    assert state.first_unstable_offset is None


def test_the_earliest_of_the_unreplicated_holds_readers_back(state: ProducerState) -> None:
    write(state, 0, producer=1, transactional=True)
    end(state, 1)
    write(state, 0, producer=2, transactional=True)
    end(state, 2)
    state.high_watermark_moved(2)
    assert state.first_unstable_offset == 2


def test_a_marker_without_records_ends_nothing(state: ProducerState) -> None:
    assert end(state) is None
    assert state.first_unstable_offset is None


def test_silent_producers_expire_unless_a_transaction_is_open(state: ProducerState) -> None:
    write(state, 0, producer=1, timestamp=1_000)
    write(state, 0, producer=2, timestamp=1_000, transactional=True)
    write(state, 0, producer=3, timestamp=2_000)
    assert state.remove_expired(1_000 + DAY_MS - 1) == 0
    assert state.remove_expired(1_000 + DAY_MS) == 1
    assert [producer for producer, _ in state.items()] == [2, 3]


def test_a_snapshot_restores_all_but_older_batches(state: ProducerState) -> None:
    write(state, 0, 3, producer=9, timestamp=5)
    write(state, 3, 2, producer=9, timestamp=6)
    write(state, 0, producer=2, transactional=True, timestamp=6)
    write(state, 0, producer=1, transactional=True, timestamp=6)
    end(state, 1, aborted=False)
    entries = list(state.snapshot())
    assert [entry.producer_id for entry in entries] == [1, 2, 9]
    again = ProducerState(DAY_MS)
    again.load(reversed(entries), state.end_offset, now_ms=10)
    assert list(again.snapshot()) == entries
    assert again.end_offset == state.end_offset
    assert again.first_unstable_offset == 5
    assert again.check(9, 0, 3, 4) == Duplicate(3, 4, 6)
    with pytest.raises(ApiError):
        again.check(9, 0, 0, 2)
    assert end(again, 2) == CompletedTxn(2, 5, 8, 9, True)


def test_a_snapshots_expired_producers_stay_away(state: ProducerState) -> None:
    write(state, 0, producer=1, timestamp=0)
    write(state, 0, producer=2, timestamp=0, transactional=True)
    again = ProducerState(DAY_MS)
    again.load(state.snapshot(), state.end_offset, now_ms=DAY_MS)
    assert [producer for producer, _ in again.items()] == [2]


def test_the_log_start_moves_over_producers(state: ProducerState) -> None:
    write(state, 0, transactional=True)
    end(state)
    state.log_start_moved(50)
    assert state.end_offset == 50
    assert state.first_unstable_offset is None
    assert refusal(state, 0, 5, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_clearing(state: ProducerState) -> None:
    write(state, 0, transactional=True)
    state.clear(5)
    assert len(state) == 0
    assert state.first_unstable_offset is None
    assert state.end_offset == 5
    write(state, 99)


def verified(
    state: ProducerState, sequence: int, verification: Verification | None, *, epoch: int = 0
) -> None:
    state.check(PID, epoch, sequence, sequence, transactional=True, verification=verification)


def verified_code(
    state: ProducerState, sequence: int, verification: Verification | None, *, epoch: int = 0
) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        verified(state, sequence, verification, epoch=epoch)
    return caught.value.code


def test_a_transaction_begins_only_with_its_own_verification(state: ProducerState) -> None:
    assert verified_code(state, 0, None) is ErrorCode.INVALID_TXN_STATE
    verification = state.start_verification(PID, 0, 0, 0)
    assert verification is not None
    assert verified_code(state, 0, Verification(0, 0, 0)) is ErrorCode.INVALID_TXN_STATE
    verified(state, 0, verification)
    write(state, 0, transactional=True)
    assert state.in_transaction(PID, 0)
    assert state.start_verification(PID, 0, 1, 0) is None
    verified(state, 1, None)


def test_a_marker_during_the_verification_invalidates_it(state: ProducerState) -> None:
    verification = state.start_verification(PID, 0, 0, 0)
    end(state)
    assert verified_code(state, 0, verification) is ErrorCode.INVALID_TXN_STATE
    fresh = state.start_verification(PID, 0, 0, 0)
    assert fresh is not verification
    assert verified_code(state, 0, verification) is ErrorCode.INVALID_TXN_STATE
    verified(state, 0, fresh)


def test_another_epoch_needs_a_proof_of_its_own(state: ProducerState) -> None:
    write(state, 0, transactional=True)
    assert not state.in_transaction(PID, 1)
    assert verified_code(state, 0, None, epoch=1) is ErrorCode.INVALID_TXN_STATE
    verified(state, 0, state.start_verification(PID, 1, 0, 0), epoch=1)


def test_a_batch_under_verification_must_be_appended_before_later_ones(state: ProducerState) -> None:
    verification = state.start_verification(PID, 0, 5, 0)
    assert state.start_verification(PID, 0, 3, 0) is verification
    assert verified_code(state, 5, verification) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verified(state, 3, verification)
    assert state.start_verification(PID, 1, 9, 0) is verification
    verified(state, 9, verification, epoch=1)
    with pytest.raises(ApiError) as caught:
        state.check(PID, 0, 10, 10, verification=None)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_needs_no_verification(state: ProducerState) -> None:
    write(state, 0, transactional=True)
    end(state)
    assert state.check(PID, 0, 0, 0, transactional=True, verification=None) == Duplicate(0, 0, 0)


def test_an_abandoned_verification_expires(state: ProducerState) -> None:
    verification = state.start_verification(PID, 0, 0, 1000)
    state.remove_expired(1000 + DAY_MS - 1)
    verified(state, 0, verification)
    state.remove_expired(1000 + DAY_MS)
    assert verified_code(state, 0, verification) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_the_second_generation_has_a_later_epoch_than_its_transaction(
    state: ProducerState,
) -> None:
    write(state, 0, epoch=4, transactional=True)
    with pytest.raises(ApiError) as caught:
        state.check_marker(PID, 4, 0, epoch_per_transaction=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    state.check_marker(PID, 4, 0)
    state.check_marker(PID, 5, 0, epoch_per_transaction=True)
    end(state, epoch=5)
    state.check_marker(PID, 5, 1, epoch_per_transaction=True)
    with pytest.raises(ApiError):
        state.check_marker(PID, 4, 1, epoch_per_transaction=True)


def test_a_transaction_from_the_first_record_on_is_open_after_a_restart(state: ProducerState) -> None:
    write(state, 0, producer=2, transactional=True)
    again = ProducerState(DAY_MS)
    again.load(state.snapshot(), state.end_offset, now_ms=10)
    assert again.first_unstable_offset == 0
    assert end(again, 2) == CompletedTxn(2, 0, 1, 2, True)

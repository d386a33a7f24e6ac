"""Results are judged, waiters are woken when what they wait for holds, and the first failure counts."""

from __future__ import annotations

import threading

from ottla.client.parallel.errors import RecordFailed, Unprocessable
from ottla.client.parallel.options import Options, RetryPolicy
from tests.unit.client.parallel.stand_ins import P0, add, exchange_of, take

PATIENCE_S = 30.0


def test_a_result_is_handed_in_and_the_next_record_taken_in_one_step() -> None:
    exchange, _, _ = exchange_of()
    add(exchange, 0, b"k")
    add(exchange, 1, b"k")
    first = take(exchange)
    with exchange.lock:
        second = exchange.trade(first, None)
    assert second is not None
    assert second.offset == 1
    assert exchange.scheduler.progress().done == 1


def test_workers_are_told_of_work_and_of_more_work() -> None:
    exchange, _, _ = exchange_of()
    told: list[bool] = []
    exchange.attach(lambda: told.append(True))
    add(exchange, 0)
    assert len(told) == 1
    exchange.scheduler.add(P0, 1, None, take(exchange).message)
    with exchange.lock:
        exchange.announce()
    assert len(told) == 2


def test_an_error_of_the_handler_brings_the_record_again() -> None:
    exchange, clock, _ = exchange_of(Options(retry=RetryPolicy(delay_first_s=1)))
    add(exchange, 0)
    work = take(exchange)
    with exchange.lock:
        assert exchange.trade(work, ValueError()) is None
        clock.now = 1.0
        assert exchange.trade(None, None) is work


def test_unprocessable_goes_to_the_dead_letters_at_once() -> None:
    exchange, _, box = exchange_of(Options(dead_letter_topic="dead"))
    add(exchange, 0)
    work, error = take(exchange), Unprocessable("no use")
    with exchange.lock:
        exchange.trade(work, error)
    assert box.letters == [(work, error)]
    assert exchange.scheduler.progress().done == 0
    exchange.dead_lettered(work)
    assert exchange.scheduler.progress().done == 1
    assert exchange.failure is None


def test_a_record_that_fails_for_good_stops_everything_and_the_first_error_counts() -> None:
    exchange, _, _ = exchange_of(Options(retry=RetryPolicy(attempts_max=1)))
    for offset in range(3):
        add(exchange, offset)
    first, second = take(exchange), take(exchange)
    error = ValueError("broken")
    with exchange.lock:
        assert exchange.trade(first, error) is None, "no more work is given out"
        exchange.trade(second, ValueError("another"))
    assert isinstance(exchange.failure, RecordFailed)
    assert exchange.failure.__cause__ is error
    assert "offset 0 of t-0" in str(exchange.failure)


def test_what_is_no_exception_ends_the_consumer_as_it_is() -> None:
    exchange, _, _ = exchange_of()
    add(exchange, 0)
    work, error = take(exchange), SystemExit(3)
    with exchange.lock:
        exchange.trade(work, error)
    assert exchange.failure is error
    assert exchange.scheduler.running([P0]) == 0
    assert exchange.scheduler.in_flight == 1, "the record is not done"


def test_a_refused_dead_letter_leaves_its_record_unfinished() -> None:
    exchange, _, _ = exchange_of(Options(dead_letter_topic="dead"))
    add(exchange, 0)
    work, error = take(exchange), RuntimeError()
    with exchange.lock:
        exchange.trade(work, Unprocessable())
    exchange.dead_letter_failed(work, error)
    assert exchange.failure is error
    assert exchange.scheduler.running([P0]) == 0
    assert exchange.scheduler.in_flight == 1


def test_halted_gives_out_nothing() -> None:
    exchange, _, _ = exchange_of()
    add(exchange, 0)
    exchange.halted = True
    with exchange.lock:
        assert exchange.trade(None, None) is None


def test_waiting_ends_when_the_last_result_comes() -> None:
    exchange, _, _ = exchange_of()
    add(exchange, 0)
    work = take(exchange)
    waiting = threading.Event()
    outcome: list[bool] = []

    def wait() -> None:
        with exchange.lock:
            waiting.set()
            outcome.append(exchange.wait_for(lambda: exchange.scheduler.running([P0]) == 0, PATIENCE_S))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(PATIENCE_S)
    with exchange.lock:  # free only once the other waits
        exchange.trade(work, None)
    thread.join(PATIENCE_S)
    assert outcome == [True]


def test_waiting_without_time_tells_what_holds_now() -> None:
    exchange, _, _ = exchange_of()
    with exchange.lock:
        assert not exchange.wait_for(lambda: False, 0)
        assert exchange.wait_for(lambda: True, 0)

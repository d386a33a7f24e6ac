"""Results of handlers, waiting for conditions, and the first failure."""

from __future__ import annotations

import threading

from ottla.client.parallel.errors import RecordFailed, Unprocessable
from ottla.client.parallel.options import Options, RetryPolicy
from tests.unit.client.parallel.fakes import P0, add, dispatcher_of, take

TIMEOUT_S = 30.0


def test_reporting_a_result_returns_the_next_record() -> None:
    dispatcher, _, _ = dispatcher_of()
    add(dispatcher, 0, b"k")
    add(dispatcher, 1, b"k")
    first = take(dispatcher)
    with dispatcher.lock:
        second = dispatcher.next_work(first, None)
    assert second is not None
    assert second.offset == 1
    assert dispatcher.scheduler.progress().done == 1


def test_workers_are_woken_for_each_ready_record() -> None:
    dispatcher, _, _ = dispatcher_of()
    calls: list[bool] = []
    dispatcher.attach(lambda: calls.append(True))
    add(dispatcher, 0)
    assert len(calls) == 1
    dispatcher.scheduler.add(P0, 1, None, take(dispatcher).message)
    with dispatcher.lock:
        dispatcher.wake_workers_if_ready()
    assert len(calls) == 2


def test_a_record_is_retried_after_an_error_of_the_handler() -> None:
    dispatcher, clock, _ = dispatcher_of(Options(retry=RetryPolicy(delay_first_s=1)))
    add(dispatcher, 0)
    work = take(dispatcher)
    with dispatcher.lock:
        assert dispatcher.next_work(work, ValueError()) is None
        clock.now = 1.0
        assert dispatcher.next_work(None, None) is work


def test_an_unprocessable_record_becomes_a_dead_letter_at_once() -> None:
    dispatcher, _, box = dispatcher_of(Options(dead_letter_topic="dead"))
    add(dispatcher, 0)
    work, error = take(dispatcher), Unprocessable("invalid")
    with dispatcher.lock:
        dispatcher.next_work(work, error)
    assert box.letters == [(work, error)]
    assert dispatcher.scheduler.progress().done == 0
    dispatcher.dead_lettered(work)
    assert dispatcher.scheduler.progress().done == 1
    assert dispatcher.failure is None


def test_a_record_that_fails_permanently_ends_the_consumer_with_the_first_error() -> None:
    dispatcher, _, _ = dispatcher_of(Options(retry=RetryPolicy(attempts_max=1)))
    for offset in range(3):
        add(dispatcher, offset)
    first, second = take(dispatcher), take(dispatcher)
    error = ValueError("broken")
    with dispatcher.lock:
        assert dispatcher.next_work(first, error) is None, "no more work is given out"
        dispatcher.next_work(second, ValueError("another"))
    assert isinstance(dispatcher.failure, RecordFailed)
    assert dispatcher.failure.__cause__ is error
    assert "offset 0 of t-0" in str(dispatcher.failure)


def test_a_base_exception_ends_the_consumer_unchanged() -> None:
    dispatcher, _, _ = dispatcher_of()
    add(dispatcher, 0)
    work, error = take(dispatcher), SystemExit(3)
    with dispatcher.lock:
        dispatcher.next_work(work, error)
    assert dispatcher.failure is error
    assert dispatcher.scheduler.running([P0]) == 0
    assert dispatcher.scheduler.in_flight == 1, "the record is not done"


def test_a_failed_dead_letter_leaves_its_record_unfinished() -> None:
    dispatcher, _, _ = dispatcher_of(Options(dead_letter_topic="dead"))
    add(dispatcher, 0)
    work, error = take(dispatcher), RuntimeError()
    with dispatcher.lock:
        dispatcher.next_work(work, Unprocessable())
    dispatcher.dead_letter_failed(work, error)
    assert dispatcher.failure is error
    assert dispatcher.scheduler.running([P0]) == 0
    assert dispatcher.scheduler.in_flight == 1


def test_halted_gives_out_nothing() -> None:
    dispatcher, _, _ = dispatcher_of()
    add(dispatcher, 0)
    dispatcher.halted = True
    with dispatcher.lock:
        assert dispatcher.next_work(None, None) is None


def test_waiting_ends_with_the_last_result() -> None:
    dispatcher, _, _ = dispatcher_of()
    add(dispatcher, 0)
    work = take(dispatcher)
    waiting = threading.Event()
    outcome: list[bool] = []

    def wait() -> None:
        with dispatcher.lock:
            waiting.set()
            outcome.append(dispatcher.wait_for(lambda: dispatcher.scheduler.running([P0]) == 0, TIMEOUT_S))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(TIMEOUT_S)
    with dispatcher.lock:  # free only once the other waits
        dispatcher.next_work(work, None)
    thread.join(TIMEOUT_S)
    assert outcome == [True]


def test_waiting_without_timeout_returns_the_current_state() -> None:
    dispatcher, _, _ = dispatcher_of()
    with dispatcher.lock:
        assert not dispatcher.wait_for(lambda: False, 0)
        assert dispatcher.wait_for(lambda: True, 0)

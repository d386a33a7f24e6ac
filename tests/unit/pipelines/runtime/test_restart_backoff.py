"""When a flow is tried again: pauses that double, a limit, and forgiveness."""

from __future__ import annotations

from ottla.pipelines.runtime.restart_backoff import LONGEST_S, RESET_AFTER_S, Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff()
    pauses = []
    for number in range(9):
        backoff.started(number)
        due = backoff.failed(number)
        assert due is not None
        pauses.append(due - number)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_S, LONGEST_S, LONGEST_S]


def test_a_thousand_failures_do_not_overflow() -> None:
    backoff = Backoff()
    assert [backoff.failed(0) for _ in range(2_000)][-1] == LONGEST_S


def test_it_stops_after_the_maximum_of_consecutive_failures() -> None:
    backoff = Backoff(restarts_max=2)
    assert [backoff.failed(0) for _ in range(3)] == [1, 2, None]


def test_a_long_good_run_is_forgiven_but_counted() -> None:
    backoff = Backoff(restarts_max=1)
    for number in range(3):
        now_s = number * (RESET_AFTER_S + 1)
        backoff.started(now_s)
        backoff.batch_done()
        assert backoff.failed(now_s + RESET_AFTER_S) == now_s + RESET_AFTER_S + 1
    assert backoff.total == 3


def test_a_start_without_a_batch_does_not_reset_the_failures() -> None:
    backoff = Backoff(restarts_max=2)
    backoff.started(0)
    backoff.batch_done()
    times = [number * (RESET_AFTER_S + 1) for number in range(1, 5)]
    assert [backoff.failed(now_s) is not None for now_s in times] == [True, True, False, False]


def test_a_limit_of_zero_restarts_is_allowed() -> None:
    assert Backoff(restarts_max=0).failed(0) is None

"""Reconnect back-off: growth, maximum, jitter, reset."""

from __future__ import annotations

import random

from ottla.peer.backoff import Backoff


class NoJitter(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def test_the_delay_doubles_up_to_the_maximum() -> None:
    backoff = Backoff(0.05, 1.0, NoJitter())
    assert [backoff.failed() for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_connection_resets_the_delay() -> None:
    backoff = Backoff(0.05, 1.0, NoJitter())
    backoff.failed()
    backoff.failed()
    backoff.succeeded()
    assert backoff.failed() == 0.05


def test_delays_differ_by_up_to_a_fifth() -> None:
    rng = random.Random(3)
    delays = [Backoff(0.1, 1.0, rng).failed() for _ in range(200)]
    assert 0.08 <= min(delays) < 0.085
    assert 0.115 < max(delays) <= 0.12


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(0.05, 1.0, random.Random(1))
    assert [backoff.failed() for _ in range(5000)][-1] <= 1.0

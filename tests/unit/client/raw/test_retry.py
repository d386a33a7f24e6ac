"""Delays between attempts, with a fake clock."""

from __future__ import annotations

import pytest

from ottla.client.raw.errors import ClusterUnreachable, ConnectionLost, RetriableError, TimedOut
from ottla.client.raw.retry import Retry
from ottla.client.raw.settings import ClientSettings

SETTINGS = ClientSettings(
    bootstrap=(("a", 1),), api_timeout_ms=2_000, retry_backoff_ms=100, retry_backoff_max_ms=500
)


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_delays_grow_to_a_limit_and_end_at_the_deadline() -> None:
    time = Time()
    retry = Retry("fetching t-0", SETTINGS, time, time.wait)
    for _ in range(5):
        retry.backoff(RetriableError("no leader yet"))
    with pytest.raises(TimedOut, match=r"fetching t-0 did not succeed within 2 s: no leader"):
        retry.backoff(RetriableError("no leader"))
    assert time.waits == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_an_unreachable_cluster_is_a_separate_error() -> None:
    time = Time()
    retry = Retry("fetching", SETTINGS, time, time.wait)
    time.now = 1.95
    with pytest.raises(ClusterUnreachable):
        retry.backoff(ConnectionLost("a:1"))
    assert time.waits == []


def test_a_pause_requested_by_a_broker_is_not_counted() -> None:
    time = Time()
    retry = Retry("fetching", SETTINGS, time, time.wait)
    retry.pause(60.0)
    retry.backoff(RetriableError("no leader"))
    assert time.waits == [60.0, 0.1]
    assert retry.elapsed_s == pytest.approx(0.1)


def test_an_unreachable_cluster_is_reported_once_after_a_second() -> None:
    time, reported = Time(), []
    retry = Retry("fetching", SETTINGS, time, time.wait, reported.append)
    retry.backoff(RetriableError("no leader"))
    time.now = 0.9
    retry.backoff(ConnectionLost("a:1 refused"))
    assert reported == []
    time.now = 1.1
    retry.backoff(RetriableError("no leader"))
    time.now = 1.1
    retry.backoff(ConnectionLost("a:1 refused"))
    time.now = 1.2
    retry.backoff(ConnectionLost("a:1 refused"))
    assert reported == ["a:1 refused; trying again for 2 s"]

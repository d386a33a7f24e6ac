"""Quantiles of request times, their windows, and the order of a connection's responses."""

from __future__ import annotations

import pytest

from ottla.broker.metrics.request_times import WINDOW_S, RequestTimes, ResponseTimer, bucket_of, upper_bound


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def quantiles(times: RequestTimes) -> dict[float, float]:
    ((_, _, _, found),) = list(times)
    return dict(found)


@pytest.mark.parametrize("microseconds", [0, 1, 2, 3, 4, 5, 7, 8, 100, 1_000, 12_345, 10**6, 10**9])
def test_a_bucket_is_close_to_its_times(microseconds: int) -> None:
    bound = upper_bound(bucket_of(microseconds))
    assert microseconds < bound <= microseconds * 1.25 + 2


def test_buckets_are_in_order() -> None:
    found = [bucket_of(each) for each in range(10_000)]
    assert found == sorted(found)


def test_quantiles_counts_and_sums() -> None:
    times = RequestTimes(FakeClock())
    for _ in range(99):
        times.record(0, 0.001)
    times.record(0, 1.0)
    ((api_key, count, sum_ms, _),) = list(times)
    assert (api_key, count, round(sum_ms)) == (0, 100, 1099)
    found = quantiles(times)
    assert 1 <= found[0.5] <= 1.25
    assert 1 <= found[0.99] <= 1.25
    assert 1000 <= found[0.999] <= 1250


def test_old_times_are_forgotten_after_two_windows() -> None:
    clock = FakeClock()
    times = RequestTimes(clock)
    times.record(3, 1.0)
    clock.now += WINDOW_S
    times.turn()
    assert quantiles(times)
    clock.now += WINDOW_S
    times.turn()
    assert quantiles(times) == {}
    times.record(3, 1.0)
    clock.now += 5 * WINDOW_S
    times.turn()
    assert quantiles(times) == {}
    ((_, count, _, _),) = list(times)
    assert count == 2


def test_a_connection_measures_its_requests_in_order() -> None:
    clock = FakeClock()
    times = RequestTimes(clock)
    timer = ResponseTimer(times)
    timer.received(0)
    clock.now = 1.0
    timer.received(1)
    clock.now = 3.0
    timer.sent()
    timer.sent()
    timer.sent()
    assert [(api_key, count, sum_ms) for api_key, count, sum_ms, _ in times] == [(0, 1, 3000), (1, 1, 2000)]

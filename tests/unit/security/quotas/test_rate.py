from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.quotas.rate import Measured, Rate, throttle_ms


class Sample:
    def __init__(self, now: int) -> None:
        self.start = self.last = now
        self.value = 0.0


class Model:
    """The measured rate as Kafka's documentation of it describes it, without regard to speed."""

    def __init__(self, samples: int, window: int) -> None:
        self.samples, self.window = samples, window
        self.ring: list[Sample] = []
        self.at = 0

    def record(self, value: float, now: int) -> None:
        if not self.ring:
            self.ring.append(Sample(now))
        if now - self.ring[self.at].start >= self.window:
            self.at = (self.at + 1) % (self.samples + 1)
            if self.at == len(self.ring):
                self.ring.append(Sample(now))
            else:
                self.ring[self.at] = Sample(now)
        self.ring[self.at].value += value
        self.ring[self.at].last = now

    def measure(self, now: int) -> Measured:
        for index, sample in enumerate(self.ring):
            if now - sample.last >= self.samples * self.window:
                self.ring[index] = Sample(now)
        total = sum(sample.value for sample in self.ring)
        oldest = min((sample.start for sample in self.ring), default=now)
        elapsed = now - oldest
        full = elapsed // self.window
        if full < self.samples - 1:
            elapsed += (self.samples - 1 - full) * self.window
        elapsed = max(elapsed, 1)
        return Measured(total / (elapsed / 1000), elapsed)


steps = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 10**6), st.booleans()), max_size=60)


@given(steps, st.integers(1, 12), st.sampled_from([1, 500, 1000]))
def test_a_rate_is_that_of_the_model(
    moves: list[tuple[int, int, bool]], samples: int, window_ms: int
) -> None:
    rate, model, now = Rate(samples, window_ms), Model(samples, window_ms), 10**6
    for pause, value, looks in moves:
        now += pause
        rate.record(value, now)
        model.record(value, now)
        if looks:
            mine, expected = rate.measure(now), model.measure(now)
            assert mine.window_ms == expected.window_ms
            assert math.isclose(mine.rate, expected.rate)


def test_the_first_value_is_measured_over_all_windows() -> None:
    rate = Rate(11, 1000)
    rate.record(20_000, 5)
    assert rate.measure(5) == Measured(2000.0, 10_000)
    assert rate.measure(505) == Measured(pytest.approx(20_000 / 10.5), 10_500)


def test_old_values_are_forgotten() -> None:
    rate = Rate(11, 1000)
    rate.record(1000, 0)
    assert rate.measure(10_999).rate > 0
    assert rate.measure(11_000).rate == 0
    assert Rate(11, 1000).measure(7) == Measured(0.0, 10_000)


def test_a_value_can_be_taken_back() -> None:
    rate = Rate(11, 1000)
    rate.record(500, 0)
    before = rate.measure(100)
    rate.record(700, 100)
    rate.record(-700, 100)
    assert rate.measure(100) == before


@pytest.mark.parametrize(
    ("rate", "bound", "window_ms", "expected"),
    [
        (2000.0, 1000.0, 10_000, 10_000),
        (1000.0, 1000.0, 10_000, 0),
        (999.0, 1000.0, 10_000, 0),
        (1500.0, 1000.0, 10_001, 5001),
        (1000.04, 1000.0, 10_000, 0),
    ],
)
def test_throttle_time(rate: float, bound: float, window_ms: int, expected: int) -> None:
    assert throttle_ms(Measured(rate, window_ms), bound) == expected


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_after_the_throttle_time_the_rate_is_at_its_bound(value: int, bound: int) -> None:
    rate = Rate(11, 1000)
    rate.record(value, 0)
    wait = throttle_ms(rate.measure(0), bound)
    window = 10_000 + wait
    assert value * 1000 / window <= bound * (1 + 1 / window) + 1e-6

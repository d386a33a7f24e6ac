from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.security.quotas.token_bucket import TokenBucket


def test_a_burst_then_the_rate() -> None:
    bucket = TokenBucket(2.0, 11.0, 1000)
    assert bucket.tokens(1000) == 22
    bucket.take(22, 1000)
    assert bucket.wait_ms(1000) == 0
    bucket.take(4, 1000)
    assert bucket.wait_ms(1000) == 2000
    assert bucket.wait_ms(2000) == 1000
    assert bucket.wait_ms(3000) == 0
    assert bucket.tokens(10**9) == 22


def test_a_changed_rate() -> None:
    bucket = TokenBucket(1.0, 10.0, 0)
    bucket.take(20, 0)
    assert bucket.wait_ms(0) == 10_000
    bucket.set_rate(5.0)
    assert bucket.wait_ms(0) == 2000


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 50)), max_size=50), st.floats(0.1, 20))
def test_no_more_is_taken_than_burst_and_rate_allow(moves: list[tuple[int, int]], rate: float) -> None:
    """Taken while the bucket is not exhausted: at most the burst, the refill, and one request below zero."""
    bucket, now, taken, largest = TokenBucket(rate, 11.0, 0), 0, 0, 0
    for pause, count in moves:
        now += pause
        if not bucket.wait_ms(now):
            bucket.take(count, now)
            taken += count
            largest = max(largest, count)
    assert taken <= rate * 11 + rate * now / 1000 + largest + 1e-6


def test_the_time_to_wait_is_rounded() -> None:
    for count, wait_ms in ((100, 33), (200, 67)):
        bucket = TokenBucket(3000.0, 0.0, 0)
        bucket.take(count, 0)
        assert bucket.wait_ms(0) == wait_ms

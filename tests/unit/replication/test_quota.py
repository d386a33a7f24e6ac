"""Limits of replication: which replicas they include, when they are exceeded, when they are compared again."""

from __future__ import annotations

import pytest

from ottla.replication.quota import UNLIMITED, ReplicationQuota, is_throttled
from tests.support.replica_fetches import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def quota(clock: FakeClock) -> ReplicationQuota:
    return ReplicationQuota(11, 1000, clock)


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ((), False),
        (("*",), True),
        (("3:1",), True),
        (("0:1", "3:1"), True),
        (("3:2",), False),
        (("1:3",), False),
        (("33:1", "3:11"), False),
    ],
)
def test_the_replicas_of_a_setting(replicas: tuple[str, ...], expected: bool) -> None:
    assert is_throttled(replicas, 3, 1) is expected


def test_nothing_is_limited_at_first(quota: ReplicationQuota) -> None:
    quota.record(10**12)
    assert not quota.limited
    assert not quota.exceeded


def test_a_burst_is_measured_over_one_window_and_forgotten_after_all(
    quota: ReplicationQuota, clock: FakeClock
) -> None:
    quota.set_bound(1000)
    quota.record(1000)
    assert not quota.exceeded
    quota.record(1)
    assert quota.exceeded
    clock.seconds += 1.1
    assert not quota.exceeded
    quota.record(5000)
    assert quota.exceeded
    clock.seconds += 11.0
    assert not quota.exceeded


def test_a_limit_can_be_removed(quota: ReplicationQuota) -> None:
    quota.set_bound(1)
    quota.record(1000)
    assert quota.exceeded
    quota.set_bound(UNLIMITED)
    assert not quota.limited
    assert not quota.exceeded


def test_the_wait_is_as_long_as_the_excess_within_limits(quota: ReplicationQuota) -> None:
    quota.set_bound(1000)
    quota.record(1500)
    assert quota.wait_s() == pytest.approx(0.5)
    quota.record(10**6)
    assert quota.wait_s() == 1.0
    quota.set_bound(2 * 10**6)
    assert quota.wait_s() == 0.02
    quota.set_bound(0)
    assert quota.exceeded
    assert quota.wait_s() == 1.0

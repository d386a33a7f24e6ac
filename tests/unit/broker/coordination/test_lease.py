"""The lease on leadership ends before the controller can fence this broker."""

from __future__ import annotations

import pytest

from ottla.broker.coordination.lease import HeartbeatLease, PermanentLease
from tests.support.coordination import FakeClock

TIMEOUT_S = 3.0


@pytest.mark.parametrize(("age_s", "holds"), [(0.0, True), (2.0, True), (2.2, False), (60.0, False)])
def test_the_lease_ends_before_the_session(age_s: float, holds: bool) -> None:
    clock = FakeClock()
    sent_at = clock.monotonic()
    lease = HeartbeatLease(lambda: sent_at, TIMEOUT_S, clock.monotonic)
    clock.now += round(age_s * 1000)
    assert lease.holds() is holds


def test_a_fenced_broker_has_no_lease() -> None:
    assert not HeartbeatLease(lambda: None, TIMEOUT_S, FakeClock().monotonic).holds()


def test_an_acknowledged_heartbeat_renews_the_lease() -> None:
    clock = FakeClock()
    sent: list[float] = [clock.monotonic()]
    lease = HeartbeatLease(lambda: sent[-1], TIMEOUT_S, clock.monotonic)
    clock.now += 10_000
    assert not lease.holds()
    sent.append(clock.monotonic())
    assert lease.holds()


def test_the_only_voter_has_a_permanent_lease() -> None:
    assert PermanentLease().holds()

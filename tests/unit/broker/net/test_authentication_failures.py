"""Delays of failures: the configured one, longer ones for an address that fails often, none for others."""

from __future__ import annotations

from ottla.broker.net.authentication_failures import AuthenticationFailures


def test_the_configured_delay() -> None:
    failures = AuthenticationFailures(0.1)
    assert [failures.failed("a", 0.0) for _ in range(10)] == [0.1] * 10


def test_the_delay_doubles_and_is_limited() -> None:
    failures = AuthenticationFailures(0.1)
    delays = []
    for _ in range(1000):
        delays.append(failures.failed("a", 1.0))
        failures.released("a")
    assert delays[10] == 0.2
    assert delays[20] == 0.4
    assert max(delay or 0.0 for delay in delays) == 10.0
    assert failures.failed("b", 1.0) == 0.1


def test_a_longer_configured_delay_is_not_shortened() -> None:
    failures = AuthenticationFailures(20.0)
    delays = {failures.failed("a", 1.0) for _ in range(30)}
    assert delays == {20.0}


def test_the_count_starts_again_after_a_minute() -> None:
    failures = AuthenticationFailures(0.0)
    for _ in range(50):
        failures.failed("a", 0.0)
    assert failures.failed("a", 61.0) == 0.0


def test_an_address_with_many_waiting_failures_gets_no_response() -> None:
    failures = AuthenticationFailures(0.1)
    delays = [failures.failed("a", 0.0) for _ in range(101)]
    assert delays[-1] is None
    assert None not in delays[:-1]
    failures.released("a")
    assert failures.failed("a", 0.0) is not None


def test_the_number_of_addresses_is_limited() -> None:
    failures = AuthenticationFailures(0.1)
    for number in range(30_000):
        failures.failed(str(number), 0.0)
    assert len(failures._by_ip) <= 10_000
    failures.released("0")


def test_failures_of_one_minute_are_counted_together() -> None:
    failures = AuthenticationFailures(0.1)
    for _ in range(10):
        failures.failed("a", 1000.0)
    assert failures.failed("a", 1059.0) == 0.2


def test_the_configured_delay_is_doubled() -> None:
    failures = AuthenticationFailures(0.5)
    delays = [failures.failed("a", 0.0) for _ in range(21)]
    assert (delays[9], delays[10], delays[20]) == (0.5, 1.0, 2.0)


def test_a_failure_is_released_once() -> None:
    failures = AuthenticationFailures(0.1)
    failures.failed("a", 0.0)
    for _ in range(5):
        failures.released("a")
    assert [failures.failed("a", 0.0) for _ in range(101)].index(None) == 100

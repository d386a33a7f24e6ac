"""Evidence of lost brokers from connections."""

from __future__ import annotations

import ssl

from ottla.broker.forwarding.broker_watch import ConnectionWatch
from ottla.security.protocol import SecurityProtocol
from tests.unit.peer.fakes import (
    FakeNetwork,
    FakeTimers,
    MemoryTransport,
    api_versions,
    environment,
    response_to,
)

PLAINTEXT, TLS = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL


class Scenario:
    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.timers = FakeTimers()
        self.lost: list[int] = []
        self.tls_network = FakeNetwork()
        self.watch = ConnectionWatch(
            environment(self.timers, self.network),
            environment(self.timers, self.tls_network),
            1,
            self.lost.append,
        )

    def connect(self) -> MemoryTransport:
        """Accept the connection attempt and respond with the API versions."""
        transport = self.network.accept()
        transport.deliver(response_to(transport.remote.requests()[0], api_versions()))
        return transport


def test_a_closed_connection_and_a_refused_attempt_are_evidence() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    transport = test.connect()
    transport.end()
    assert test.lost == []
    test.timers.advance(0.02)
    assert len(test.network.attempts) == 2, "the connection is opened again at once"
    test.network.reject(ConnectionRefusedError())
    assert test.lost == [2]


def test_a_connection_that_is_reset_twice_is_evidence() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    test.connect().end()
    test.timers.advance(0.02)
    test.network.accept().end()
    assert test.lost == [2]


def test_a_connection_that_opens_again_is_no_evidence() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    for _ in range(3):
        test.connect().end()
        test.timers.advance(0.02)
    assert test.lost == []


def test_a_first_connection_that_is_refused_is_evidence() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    test.network.reject(ConnectionRefusedError())
    assert test.lost == [2]


def test_a_lost_broker_is_reported_once_until_it_was_connected() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    for _ in range(4):
        test.network.reject(ConnectionRefusedError())
        test.timers.advance(1.0)
    assert test.lost == [2]
    test.connect().end()
    test.timers.advance(0.02)
    test.network.reject(ConnectionRefusedError())
    assert test.lost == [2, 2]


def test_a_new_registration_is_reported_again() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    test.network.reject(ConnectionRefusedError())
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    test.timers.advance(1.0)
    test.network.reject(ConnectionRefusedError())
    assert test.lost == [2, 2]


def test_unreachable_hosts_are_no_evidence() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    test.network.reject(OSError("no route"))
    test.timers.advance(30.0)
    assert test.lost == []
    assert len(test.network.attempts) > 1, "the attempts continue"


def test_a_broker_that_is_not_watched_is_not_reported() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, PLAINTEXT)
    transport = test.connect()
    test.watch.unwatch(2)
    assert transport.closed
    test.watch.watch(3, "three", 9092, PLAINTEXT)
    third = test.connect()
    test.watch.close()
    assert third.closed
    test.timers.advance(30.0)
    assert test.lost == []


def test_brokers_with_tls_have_connections_with_tls() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, TLS)
    assert test.network.attempts == []
    test.tls_network.accept().deliver(b"")
    test.watch.watch(2, "two", 9093, PLAINTEXT)
    assert test.network.attempts == [("two", 9093)]
    test.network.reject(ConnectionRefusedError())
    assert test.lost == [2]


def test_a_failed_handshake_is_no_evidence() -> None:
    test = Scenario()
    test.watch.watch(2, "two", 9092, TLS)
    for _ in range(3):
        test.tls_network.accept().fail(ssl.SSLError(1, "alert"))
        test.timers.advance(1.0)
    assert test.lost == []

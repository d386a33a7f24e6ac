"""A connection to another node over fake ports: opening, failures, timeouts, back-off, evidence."""

from __future__ import annotations

import ssl
import struct
from typing import Any

import msgspec
import pytest
import structlog

from ottla.base.promise import Promise
from ottla.peer.connection import PeerConnection
from ottla.peer.errors import PeerError, Reason
from ottla.wire.frame_reader import LARGE_FRAME_BYTES
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.peer.test_authentication import PlainLogin, sasl_versions

from .fakes import (
    SETTINGS,
    FakeNetwork,
    FakeTimers,
    MemoryTransport,
    RecordingListener,
    api_versions,
    environment,
    error_of,
    response_to,
)


class Scenario:
    """One connection with everything around it."""

    def __init__(self, **settings: Any) -> None:
        self.timers = FakeTimers()
        self.network = FakeNetwork()
        self.listener = RecordingListener()
        self.connection = PeerConnection(
            "node 1",
            "host",
            9092,
            msgspec.structs.replace(SETTINGS, **settings),
            environment(self.timers, self.network),
            self.listener,
        )

    def request(self, timeout_s: float = 5.0) -> Promise[MetadataResponse]:
        return self.connection.request(MetadataRequest(topics=[]), MetadataResponse, timeout_s=timeout_s)

    def open(self) -> MemoryTransport:
        """Complete a connection attempt and the negotiation."""
        transport = self.network.accept()
        (versions,) = transport.remote.requests()
        transport.deliver(response_to(versions, api_versions()))
        return transport


def test_a_request_opens_the_connection() -> None:
    test = Scenario()
    assert test.network.attempts == []
    promise = test.request()
    assert test.network.attempts == [("host", 9092)]
    assert not test.connection.connected
    transport = test.open()
    assert test.connection.connected
    assert test.listener.events == ["connected"]
    (sent,) = transport.remote.requests()
    transport.deliver(response_to(sent, MetadataResponse(cluster_id="c")))
    assert promise.result().cluster_id == "c"
    test.request()
    assert len(test.network.attempts) == 1


def test_connect_opens_without_a_request_and_once() -> None:
    test = Scenario()
    test.connection.connect()
    test.connection.connect()
    test.open()
    test.connection.connect()
    assert len(test.network.attempts) == 1
    assert test.listener.events == ["connected"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ConnectionRefusedError(), Reason.REFUSED), (OSError(113, "No route to host"), Reason.UNREACHABLE)],
)
def test_a_failed_attempt_fails_its_requests(error: OSError, reason: Reason) -> None:
    test = Scenario()
    promises = [test.request(), test.request()]
    test.network.reject(error)
    assert [error_of(promise).reason for promise in promises] == [reason, reason]
    assert not any(error_of(promise).sent for promise in promises)
    assert test.listener.events == [reason.value]


def test_attempts_are_separated_by_a_back_off() -> None:
    test = Scenario(reconnect_backoff_s=1.0, reconnect_backoff_max_s=4.0)
    test.request()
    test.network.reject(ConnectionRefusedError())
    promise = test.request(timeout_s=60.0)
    test.connection.connect()
    test.timers.advance(0.79)
    assert len(test.network.attempts) == 1
    test.timers.advance(0.42)
    assert len(test.network.attempts) == 2
    test.network.reject(ConnectionRefusedError())
    assert error_of(promise).reason is Reason.REFUSED
    test.connection.connect()
    test.timers.advance(1.59)
    assert len(test.network.attempts) == 2
    test.timers.advance(0.82)
    assert len(test.network.attempts) == 3


def test_no_attempt_is_made_without_a_request() -> None:
    test = Scenario()
    test.request()
    test.network.reject(ConnectionRefusedError())
    test.timers.advance(600)
    assert len(test.network.attempts) == 1
    assert test.timers.pending == 0


@pytest.mark.parametrize("how", ["end", "reset", "send failure"])
def test_a_lost_connection_fails_all_requests(how: str) -> None:
    test = Scenario()
    answered = test.request()
    transport = test.open()
    (sent,) = transport.remote.requests()
    transport.deliver(response_to(sent, MetadataResponse()))
    promises = [test.request(), test.request()]
    if how == "end":
        transport.end()
    elif how == "reset":
        transport.receive_into = _reset  # type: ignore[method-assign]
        transport.on_readable()
    else:
        transport.on_failed(BrokenPipeError())
    assert answered.result() == MetadataResponse()
    assert [error_of(promise).reason for promise in promises] == [Reason.CLOSED, Reason.CLOSED]
    assert all(error_of(promise).sent for promise in promises)
    assert test.listener.events == ["connected", "closed"]
    assert transport.closed
    assert not test.connection.connected


def _reset(target: memoryview) -> int:
    raise ConnectionResetError


def test_a_request_made_by_a_failure_is_sent_on_the_next_connection() -> None:
    test = Scenario()
    repeated: list[Promise[MetadataResponse]] = []

    def repeat(_: MetadataResponse | None, error: BaseException | None) -> None:
        if isinstance(error, PeerError):
            repeated.append(test.request())

    test.request().when_done(repeat)
    transport = test.open()
    transport.end()
    test.timers.advance(0.1)
    transport = test.open()
    (sent,) = transport.remote.requests()
    transport.deliver(response_to(sent, MetadataResponse(cluster_id="again")))
    assert repeated[0].result().cluster_id == "again"
    assert test.listener.events == ["connected", "closed", "connected"]


def test_an_attempt_without_response_times_out() -> None:
    test = Scenario(connection_setup_timeout_s=2.0)
    promise = test.request(timeout_s=60.0)
    test.timers.advance(1.9)
    assert not promise.done
    test.timers.advance(0.2)
    assert error_of(promise).reason is Reason.TIMED_OUT
    assert test.network.cancelled == 1
    assert test.listener.events == ["timed out"]


def test_a_listener_that_accepts_but_does_not_respond_times_out() -> None:
    test = Scenario(connection_setup_timeout_s=2.0)
    promise = test.request(timeout_s=60.0)
    transport = test.network.accept()
    test.timers.advance(2.1)
    assert error_of(promise).reason is Reason.TIMED_OUT
    assert not error_of(promise).sent
    assert transport.closed


def test_a_queued_request_times_out_alone() -> None:
    test = Scenario()
    promise, other = test.request(timeout_s=1.0), test.request(timeout_s=9.0)
    test.timers.advance(1.1)
    assert error_of(promise).reason is Reason.TIMED_OUT
    assert not other.done
    assert test.listener.events == []


def test_a_missing_response_closes_the_connection() -> None:
    test = Scenario()
    test.connection.connect()
    transport = test.open()
    long, short = test.request(timeout_s=9.0), test.request(timeout_s=1.0)
    test.timers.advance(0.9)
    assert not short.done
    test.timers.advance(0.2)
    assert error_of(short).reason is Reason.TIMED_OUT
    assert error_of(long).reason is Reason.TIMED_OUT
    assert error_of(long).sent
    assert transport.closed
    assert test.listener.events == ["connected", "timed out"]


def test_a_completed_request_does_not_time_out() -> None:
    test = Scenario()
    test.request(timeout_s=1.0)
    transport = test.open()
    transport.deliver(response_to(transport.remote.requests()[0], MetadataResponse()))
    test.timers.advance(60)
    assert test.connection.connected
    assert test.timers.pending == 0


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", (1 << 20) + 1),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">ii", 4, 99),
        struct.pack(">ih", 2, 0),
    ],
    ids=["negative size", "oversized", "garbage", "unknown correlation id", "no header"],
)
def test_bytes_that_the_protocol_does_not_allow_close_the_connection(data: bytes) -> None:
    test = Scenario()
    promise = test.request()
    transport = test.open()
    transport.deliver(data)
    assert error_of(promise).reason is Reason.PROTOCOL_ERROR
    assert transport.closed
    assert test.listener.events == ["connected", "protocol error"]


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_responses_in_pieces(step: int) -> None:
    test = Scenario()
    promises = [test.request() for _ in range(3)]
    transport = test.open()
    data = b"".join(
        response_to(sent, MetadataResponse(cluster_id=str(index)))
        for index, sent in enumerate(transport.remote.requests())
    )
    for start in range(0, len(data), step):
        transport.deliver(data[start : start + step])
    assert [promise.result().cluster_id for promise in promises] == ["0", "1", "2"]


@pytest.mark.parametrize("size", [10, LARGE_FRAME_BYTES - 200, LARGE_FRAME_BYTES + 1, 900_000])
def test_views_of_a_raw_response_may_be_kept(size: int) -> None:
    test = Scenario()
    promise = test.connection.request_raw(FetchRequest(), timeout_s=5.0, versions=range(4, 12))
    transport = test.open()
    (sent,) = transport.remote.requests()
    partition = PartitionData(records=b"r" * size)
    response = response_to(
        sent, FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    )
    transport.deliver(response)
    raw = promise.result()
    assert raw.version == 11
    following = test.request()
    transport.deliver(response_to(transport.remote.requests()[0], MetadataResponse(cluster_id="x" * 5000)))
    assert following.done
    assert raw.frame == response[4:]


def test_the_transport_waits_for_the_bytes_of_a_large_response() -> None:
    test = Scenario()
    promise = test.connection.request_raw(FetchRequest(), timeout_s=5.0, versions=range(4, 12))
    transport = test.open()
    (sent,) = transport.remote.requests()
    partition = PartitionData(records=b"r" * 2 * LARGE_FRAME_BYTES)
    response = response_to(
        sent, FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    )
    transport.deliver(response[:LARGE_FRAME_BYTES])
    assert transport.expected == len(response) - LARGE_FRAME_BYTES
    transport.deliver(response[LARGE_FRAME_BYTES:])
    assert transport.expected == 1
    assert promise.result().frame == response[4:]


def test_close_fails_all_requests_and_notifies_no_one() -> None:
    test = Scenario()
    promise = test.request()
    transport = test.open()
    test.connection.close()
    test.connection.close()
    assert error_of(promise).reason is Reason.SHUTDOWN
    assert error_of(test.request()).reason is Reason.SHUTDOWN
    assert transport.closed
    assert test.listener.events == ["connected"]
    assert test.timers.pending == 0
    test.connection.connect()
    assert len(test.network.attempts) == 1


def test_close_cancels_an_attempt() -> None:
    test = Scenario()
    promise = test.request()
    test.connection.close()
    assert test.network.cancelled == 1
    assert error_of(promise).reason is Reason.SHUTDOWN


def test_a_listener_may_close_the_connection_between_two_responses() -> None:
    test = Scenario()
    first, second = test.request(), test.request()
    first.when_done(lambda _value, _error: test.connection.close())
    transport = test.open()
    transport.deliver(b"".join(response_to(sent, MetadataResponse()) for sent in transport.remote.requests()))
    assert first.result() == MetadataResponse()
    assert error_of(second).reason is Reason.SHUTDOWN
    assert test.listener.events == ["connected"]
    assert error_of(test.request()).reason is Reason.SHUTDOWN


def test_an_open_connection_resets_the_back_off() -> None:
    test = Scenario(reconnect_backoff_s=1.0, reconnect_backoff_max_s=60.0)
    for _ in range(4):
        test.timers.advance(60.0)
        test.connection.connect()
        test.network.reject(ConnectionRefusedError())
    test.timers.advance(60.0)
    test.connection.connect()
    test.open().end()
    test.connection.connect()
    test.timers.advance(1.3)
    assert len(test.network.attempts) == 6


class TestAuthentication:
    def scenario(self) -> Scenario:
        scenario = Scenario()
        scenario.connection = PeerConnection(
            "node 1",
            "host",
            9092,
            SETTINGS,
            environment(scenario.timers, scenario.network, PlainLogin()),
            scenario.listener,
        )
        return scenario

    def authenticate(self, transport: MemoryTransport, session_ms: int) -> None:
        (handshake,) = transport.remote.requests()
        transport.deliver(response_to(handshake, SaslHandshakeResponse()))
        (token,) = transport.remote.requests()
        transport.deliver(response_to(token, SaslAuthenticateResponse(session_lifetime_ms=session_ms)))

    def test_it_re_authenticates_before_the_session_ends(self) -> None:
        scenario = self.scenario()
        scenario.connection.connect()
        transport = scenario.network.accept()
        (versions,) = transport.remote.requests()
        transport.deliver(response_to(versions, sasl_versions()))
        assert not scenario.connection.connected
        self.authenticate(transport, 10_000)
        assert scenario.connection.connected
        scenario.timers.advance(8.4)
        assert transport.remote.requests() == []
        scenario.timers.advance(1.2)
        self.authenticate(transport, 10_000)
        assert scenario.connection.connected
        assert scenario.listener.events == ["connected"]

    def test_a_refusal_fails_the_connection_and_its_requests(self) -> None:
        scenario = self.scenario()
        waiting = scenario.request()
        transport = scenario.network.accept()
        (versions,) = transport.remote.requests()
        transport.deliver(response_to(versions, sasl_versions()))
        (handshake,) = transport.remote.requests()
        transport.deliver(response_to(handshake, SaslHandshakeResponse(error_code=33)))
        assert error_of(waiting).reason is Reason.AUTHENTICATION_FAILED
        assert not scenario.connection.connected


def test_a_failure_of_tls_is_logged_once_until_a_connection_succeeds() -> None:
    test = Scenario()

    def fail(text: str) -> list[str]:
        test.connection.connect()
        test.timers.advance(2.0)
        with structlog.testing.capture_logs() as logged:
            test.network.accept().fail(ssl.SSLError(1, text))
        return [each["reason"] for each in logged]

    assert len(fail("first")) == 1
    assert fail("first") == []
    assert len(fail("second")) == 1
    assert test.listener.events == ["authentication failed"] * 3
    test.connection.connect()
    test.timers.advance(2.0)
    test.open().end()
    assert len(fail("second")) == 1

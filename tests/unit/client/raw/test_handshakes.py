"""Connections that are closed or rejected during TLS and SASL."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.raw import AuthenticationFailed, ClientSettings, Cluster, ClusterUnreachable
from ottla.client.raw.connection import Connection
from ottla.client.raw.errors import ConnectionLost
from ottla.client.raw.tls import context_of
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

from .fake_brokers import FakeBroker
from .test_retry import Time

HANDSHAKE_FAILURE = bytes([21, 3, 3, 0, 2, 2, 40])
"""A TLS record: a fatal alert."""
NEVER_LINGER = struct.pack("ii", 1, 0)
Door = Callable[[socket.socket], object]


def cluster_of(settings: ClientSettings) -> Cluster:
    """A cluster whose timeouts pass without waiting."""
    time = Time()
    return Cluster(settings, clock=time, wait=time.wait)


def end(caller: socket.socket) -> None:
    caller.recv(1000)


def reset(caller: socket.socket) -> None:
    caller.recv(10)
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NEVER_LINGER)


def say(what: bytes) -> Door:
    def answer(caller: socket.socket) -> None:
        caller.recv(1000)
        caller.sendall(what)
        caller.recv(1000)

    return answer


class Listener:
    """Does the same with everybody who calls."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.callers = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                self.callers += 1
                with caller, contextlib.suppress(OSError):
                    self._door(caller)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def settings(self) -> ClientSettings:
        address = f"127.0.0.1:{self.port}"
        return ClientSettings.from_options({"bootstrap.servers": address, "security.protocol": "SSL"})


@pytest.fixture
def listening() -> Iterator[Callable[[Door], Listener]]:
    made: list[Listener] = []

    def listen(door: Door) -> Listener:
        made.append(Listener(door))
        return made[-1]

    yield listen
    for one in made:
        one.close()


def connect(settings: ClientSettings) -> Connection:
    assert settings.tls is not None
    ((host, port),) = settings.bootstrap
    return Connection(host, port, settings, context_of(settings.tls))


@pytest.mark.parametrize("door", [end, reset])
def test_a_connection_closed_during_tls_is_retried(listening: Callable[[Door], Listener], door: Door) -> None:
    listener = listening(door)
    with pytest.raises(ConnectionLost, match=r"no TLS with .* security\.protocol"):
        connect(listener.settings())
    before = listener.callers
    with pytest.raises(ClusterUnreachable, match=r"security\.protocol"):
        cluster_of(listener.settings()).topics()
    assert listener.callers > before + 1


@pytest.mark.parametrize("said", [HANDSHAKE_FAILURE, b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_error_of_tls_is_final(listening: Callable[[Door], Listener], said: bytes) -> None:
    listener = listening(say(said))
    with pytest.raises(AuthenticationFailed, match=r"no TLS with .* security\.protocol"):
        cluster_of(listener.settings()).topics()
    assert listener.callers == 1


class Doorkeeper:
    """A broker with SASL that returns the given responses in turn; None closes the connection."""

    def __init__(self, *answers: SaslAuthenticateResponse | None) -> None:
        self._responses = list(answers)
        self.tokens = 0
        self.broker = FakeBroker(self._receive)

    def _receive(self, request: Message) -> Message | None:
        match request:
            case SaslHandshakeRequest():
                return SaslHandshakeResponse(mechanisms=["PLAIN"])
            case SaslAuthenticateRequest():
                self.tokens += 1
                return self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        return MetadataResponse()

    def cluster(self) -> Cluster:
        options = {
            "bootstrap.servers": f"127.0.0.1:{self.broker.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "guess",
        }
        return cluster_of(ClientSettings.from_options(options))


@pytest.fixture
def keeping() -> Iterator[Callable[..., Doorkeeper]]:
    made: list[Doorkeeper] = []

    def keep(*answers: SaslAuthenticateResponse | None) -> Doorkeeper:
        made.append(Doorkeeper(*answers))
        return made[-1]

    yield keep
    for one in made:
        one.broker.close()


def test_a_connection_closed_during_authentication_is_retried(keeping: Callable[..., Doorkeeper]) -> None:
    with keeping(None, None, SaslAuthenticateResponse()).cluster() as cluster:
        assert cluster.topics() == {}
    with (
        keeping(None).cluster() as cluster,
        pytest.raises(
            ClusterUnreachable, match=r"authentication of alice \(some brokers .* password is wrong\)"
        ),
    ):
        cluster.topics()


def test_a_rejected_password_is_not_retried(keeping: Callable[..., Doorkeeper]) -> None:
    refused = SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no such user"
    )
    with (
        keeping(refused, SaslAuthenticateResponse()).cluster() as cluster,
        pytest.raises(AuthenticationFailed, match="rejected user alice: no such user"),
    ):
        cluster.topics()


class MovingClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def test_a_session_is_renewed_before_the_next_request(keeping: Callable[..., Doorkeeper]) -> None:
    keeper = keeping(SaslAuthenticateResponse(session_lifetime_ms=10_000))
    clock = MovingClock()
    with keeper.cluster() as cluster:
        settings = cluster.settings
    connection = Connection("127.0.0.1", keeper.broker.port, settings, None, clock)
    request = MetadataRequest(topics=[])
    connection.request(request, MetadataResponse)
    assert keeper.tokens == 1
    clock.seconds += 8.6
    connection.request(request, MetadataResponse)
    connection.request(request, MetadataResponse)
    assert keeper.tokens == 2
    connection.close()


def test_a_refused_renewal_closes_the_connection(keeping: Callable[..., Doorkeeper]) -> None:
    refused = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="gone")
    keeper = keeping(SaslAuthenticateResponse(session_lifetime_ms=10_000), refused)
    clock = MovingClock()
    with keeper.cluster() as cluster:
        settings = cluster.settings
    connection = Connection("127.0.0.1", keeper.broker.port, settings, None, clock)
    clock.seconds += 10
    with pytest.raises(AuthenticationFailed, match="gone"):
        connection.request(MetadataRequest(topics=[]), MetadataResponse)
    assert connection.closed

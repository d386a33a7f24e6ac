"""The authentication of connections over real sockets: the order of requests, failures, sessions."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import pytest
import structlog

from ottla.base.promise import Promise
from ottla.broker.handlers.k17_sasl_handshake import SaslHandshake
from ottla.broker.net.authentication import SaslListener
from ottla.broker.net.authentication_failures import AuthenticationFailures
from ottla.broker.net.connection import Connection
from ottla.broker.net.edge import Edge
from ottla.broker.net.limits import Limits
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.server import Server, listening_socket
from ottla.broker.registry import Call
from ottla.security.principal import ANONYMOUS, Principal, user
from ottla.security.protocol import SecurityProtocol
from ottla.security.sasl.exchange import Identity, SaslRefused, ServerExchange
from ottla.security.sasl.plain import PlainServer
from ottla.wire import codec
from ottla.wire.frames import parse_request_header, parse_response_header, request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

TIMEOUT_S = 10
GOOD, BAD = b"\0alice\0wonder", b"\0alice\0guess"
RECEIVE_MAX = 1000
R = TypeVar("R", bound=Message)


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class ManualTimers:
    """The event loop with a clock that the test moves; timers are called by `advance`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.started = asyncio.Event()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., None], *args: object) -> ManualTimer:
        entry = (self.now + delay, lambda: callback(*args))
        self.timers.append(entry)
        self.started.set()
        return ManualTimer(self, entry)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [entry for entry in self.timers if entry[0] <= self.now]
        self.timers = [entry for entry in self.timers if entry not in due]
        for _, callback in due:
            callback()


class ManualTimer:
    def __init__(self, timers: ManualTimers, entry: tuple[float, Callable[[], None]]) -> None:
        self._timers, self._entry = timers, entry

    def cancel(self) -> None:
        if self._entry in self._timers.timers:
            self._timers.timers.remove(self._entry)


class Slow:
    """An exchange whose response follows when the test keeps the promise."""

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.response: Promise[bytes] = Promise()
        self.asked = asyncio.Event()

    def respond(self, message: bytes) -> Promise[bytes]:
        self.asked.set()
        return self.response


class Expiring:
    """Authenticates every client; the credential expires one second after the start of the clock."""

    def __init__(self) -> None:
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes:
        self.identity = Identity(message.decode() or "alice", expires_ms=1_001_000)
        return b"done"


class Setup:
    """A listener with SASL; its router responds to each frame with the name of the principal."""

    def __init__(self, reauthentication_ms: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self.slow = Slow()
        self.clock = FakeClock()
        self.timers = ManualTimers(loop)
        mechanisms: Mapping[str, Callable[[], ServerExchange]] = {
            "PLAIN": lambda: PlainServer({"alice": "wonder", "bob": "builder"}),
            "SLOW": lambda: self.slow,
            "EXPIRING": Expiring,
        }
        self.sasl = SaslListener(
            mechanisms,
            {"PLAIN": reauthentication_ms},
            RECEIVE_MAX,
            AuthenticationFailures(0.1),
            self.clock,
            self.timers,  # type: ignore[arg-type]
            structlog.get_logger(),
        )
        self.handled: list[tuple[int, Principal]] = []
        self.edge = Edge(
            loop,
            Limits(),
            {ListenerType.BROKER: self.handle},
            structlog.get_logger(),
            sasl_listeners={"SASL": self.sasl},
        )
        self.server = Server(self.edge, listening_socket)
        wanted = Listener("SASL", "127.0.0.1", 0, "127.0.0.1", 0, protocol=SecurityProtocol.SASL_PLAINTEXT)
        (self.listener,) = self.server.bind([wanted])
        self.server.serve()

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """The router: 17 as the broker has it, everything else is echoed."""
        api_key, version, correlation_id, client_id, body = parse_request_header(frame)
        if api_key == 17:
            SaslHandshake.handle(
                connection, frame, body, Call(version, correlation_id, client_id, connection.origin)
            )
            return
        self.handled.append((api_key, connection.origin.principal))
        connection.respond([struct.pack(">ii", 4, correlation_id)])

    @property
    def connection(self) -> Connection:
        (one,) = self.edge.connections
        return one


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, message: Message, version: int = 0) -> None:
        self.writer.write(request_frame(message, version, 7, "test"))

    def send_frame(self, payload: bytes) -> None:
        self.writer.write(struct.pack(">i", len(payload)) + payload)

    async def frame(self) -> bytes | None:
        """The next frame; None if the connection is closed."""
        try:
            size = await asyncio.wait_for(self.reader.readexactly(4), TIMEOUT_S)
            return await asyncio.wait_for(self.reader.readexactly(struct.unpack(">i", size)[0]), TIMEOUT_S)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def request(self, message: Message, response: type[R], version: int = 0) -> R:
        self.send(message, version)
        frame = await self.frame()
        assert frame is not None, "the connection was closed"
        _, start = parse_response_header(frame, message.SPEC.api_key, version)
        return codec.decode(response, memoryview(frame), version, start=start)

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        return await self.request(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)

    async def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        return await self.request(
            SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version
        )

    async def metadata(self) -> bool:
        """Whether a request reaches the router."""
        self.send(MetadataRequest(topics=[]))
        return await self.frame() is not None


Scenario = Callable[[Setup, Client], Awaitable[None]]


def run(scenario: Scenario, reauthentication_ms: int = 0) -> None:
    async def main() -> None:
        setup = Setup(reauthentication_ms)
        client = Client(*await asyncio.open_connection("127.0.0.1", setup.listener.port))
        try:
            await scenario(setup, client)
        finally:
            client.writer.close()
            setup.server.stop(lambda: None)
            setup.server.abort()

    asyncio.run(main())


async def until_failed(setup: Setup) -> None:
    """Wait until a failure waits for its delay."""
    await asyncio.wait_for(setup.timers.started.wait(), TIMEOUT_S)
    assert setup.timers.timers


class TestOrder:
    def test_versions_handshake_token_request(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.send(ApiVersionsRequest())
            assert await client.frame() is not None
            assert (await client.handshake()).mechanisms == ["PLAIN", "SLOW", "EXPIRING"]
            response = await client.authenticate(GOOD)
            assert (response.error_code, response.session_lifetime_ms) == (0, 0)
            assert await client.metadata()
            assert setup.handled == [(18, ANONYMOUS), (3, user("alice"))]
            assert not setup.timers.timers

        run(scenario)

    def test_bare_tokens_after_version_0(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake(version=0)
            client.send_frame(GOOD)
            assert await client.frame() == b""
            assert await client.metadata()

        run(scenario)

    def test_a_request_before_authentication_closes(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            assert not await client.metadata()
            assert setup.handled == []

        run(scenario)

    def test_a_second_api_versions_closes(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.send(ApiVersionsRequest())
            assert await client.frame() is not None
            client.send(ApiVersionsRequest())
            assert await client.frame() is None

        run(scenario)

    def test_an_unknown_version_of_api_versions_may_be_repeated(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.send_frame(struct.pack(">hhih", 18, 99, 1, -1) + b"\0")
            assert await client.frame() is not None
            client.send(ApiVersionsRequest())
            assert await client.frame() is not None

        run(scenario)

    @pytest.mark.parametrize(
        "message", [MetadataRequest(topics=[]), ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")]
    )
    def test_another_request_instead_of_the_token_closes(self, message: Message) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake()
            client.send(message)
            assert await client.frame() is None
            assert setup.handled == []

        run(scenario)

    def test_a_token_without_a_handshake_closes(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.send(SaslAuthenticateRequest(auth_bytes=GOOD))
            assert await client.frame() is None

        run(scenario)

    def test_unknown_versions_close(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.send_frame(struct.pack(">hhih", 17, 9, 1, -1))
            assert await client.frame() is None

        run(scenario)

        async def second(setup: Setup, client: Client) -> None:
            await client.handshake()
            client.send_frame(struct.pack(">hhih", 36, 9, 1, -1))
            assert await client.frame() is None

        run(second)


class TestLimits:
    @pytest.mark.parametrize("size", [RECEIVE_MAX + 1, 200_000, 100 << 20])
    def test_a_large_frame_closes_before_authentication(self, size: int) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.writer.write(struct.pack(">i", size) + bytes(min(size, 150_000)))
            assert await client.frame() is None

        run(scenario)

    @pytest.mark.parametrize(("surplus", "is_open"), [(0, True), (1, False)])
    def test_the_limit_of_a_valid_request(self, surplus: int, is_open: bool) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            name = b"n" * (RECEIVE_MAX - 10 + surplus)
            client.send_frame(struct.pack(">hhih", 18, 0, 1, len(name)) + name)
            assert (await client.frame() is not None) == is_open

        run(scenario)

    def test_a_large_frame_is_allowed_afterwards(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake()
            await client.authenticate(GOOD)
            client.send_frame(struct.pack(">hhih", 3, 0, 1, -1) + bytes(300_000))
            assert await client.frame() is not None

        run(scenario)


class TestFailures:
    def test_a_failure_is_sent_after_the_delay_and_the_connection_closed(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake()
            client.send(SaslAuthenticateRequest(auth_bytes=BAD))
            client.send(MetadataRequest(topics=[]))
            await until_failed(setup)
            setup.timers.advance(0.05)
            assert not setup.connection.closed
            setup.timers.advance(0.05)
            frame = await client.frame()
            assert frame is not None
            response = codec.decode(SaslAuthenticateResponse, memoryview(frame), 0, start=4)
            assert response.error_code == 58
            assert response.error_message == "Authentication failed: Invalid username or password"
            assert await client.frame() is None
            assert setup.handled == []

        run(scenario)

    def test_a_bare_token_that_fails_gets_no_response(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake(version=0)
            client.send_frame(BAD)
            await until_failed(setup)
            setup.timers.advance(1)
            assert await client.frame() is None

        run(scenario)

    def test_a_mechanism_that_is_not_enabled(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            client.send(SaslHandshakeRequest(mechanism="GSSAPI"))
            await until_failed(setup)
            setup.timers.advance(1)
            frame = await client.frame()
            assert frame is not None
            response = codec.decode(SaslHandshakeResponse, memoryview(frame), 0, start=4)
            assert (response.error_code, response.mechanisms) == (33, ["PLAIN", "SLOW", "EXPIRING"])
            assert await client.frame() is None

        run(scenario)

    def test_a_client_that_closes_during_the_delay(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake()
            client.send(SaslAuthenticateRequest(auth_bytes=BAD))
            await until_failed(setup)
            setup.connection.close()
            setup.timers.advance(1)
            assert await client.frame() is None

        run(scenario)

    def test_a_failure_whose_response_is_sent_does_not_wait_any_more(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            failures, now = setup.sasl.failures, setup.timers.time()
            assert None not in [failures.failed("127.0.0.1", now) for _ in range(99)]
            await client.handshake()
            client.send(SaslAuthenticateRequest(auth_bytes=BAD))
            await until_failed(setup)
            assert failures.failed("127.0.0.1", now) is None
            setup.timers.advance(60)
            assert await client.frame() is not None
            assert failures.failed("127.0.0.1", now) is not None

        run(scenario)

    def test_an_address_with_many_waiting_failures_is_disconnected_at_once(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            for _ in range(100):
                setup.sasl.failures.failed("127.0.0.1", setup.timers.time())
            await client.handshake()
            client.send(SaslAuthenticateRequest(auth_bytes=BAD))
            assert await client.frame() is None
            assert not setup.timers.timers

        run(scenario)


class TestSlowExchanges:
    async def begin(self, setup: Setup, client: Client) -> None:
        await client.handshake("SLOW")
        client.send(SaslAuthenticateRequest(auth_bytes=b"x"))
        await asyncio.wait_for(setup.slow.asked.wait(), TIMEOUT_S)

    def test_success(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.begin(setup, client)
            setup.slow.identity = Identity("carol")
            setup.slow.response.keep(b"ok")
            assert await client.frame() is not None
            assert await client.metadata()
            assert setup.handled == [(3, user("carol"))]

        run(scenario)

    def test_refusal(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.begin(setup, client)
            setup.slow.response.fail(SaslRefused("no"))
            setup.timers.advance(1)
            frame = await client.frame()
            assert frame is not None
            response = codec.decode(SaslAuthenticateResponse, memoryview(frame), 0, start=4)
            text = "Authentication failed during authentication due to invalid credentials with SASL mechanism SLOW"
            assert (response.error_code, response.error_message) == (58, text)
            assert await client.frame() is None

        run(scenario)

    def test_a_retriable_refusal_closes_without_a_response(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.begin(setup, client)
            setup.slow.response.fail(SaslRefused("a replay", retriable=True))
            setup.timers.advance(0.1)
            assert await client.frame() is None

        run(scenario)

    def test_a_bug_closes_the_connection(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.begin(setup, client)
            setup.slow.response.fail(ZeroDivisionError())
            assert await client.frame() is None

        run(scenario)

    def test_a_client_that_has_closed(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.begin(setup, client)
            setup.connection.close()
            setup.slow.identity = Identity("carol")
            setup.slow.response.keep(b"ok")
            assert await client.frame() is None

        run(scenario)


class TestSessions:
    async def login(self, client: Client) -> None:
        await client.handshake()
        response = await client.authenticate(GOOD)
        assert (response.error_code, response.session_lifetime_ms) == (0, 5000)

    def test_without_sessions_17_is_an_error(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake()
            await client.authenticate(GOOD)
            assert (await client.handshake()).error_code == 34
            assert await client.metadata()

        run(scenario)

    def test_an_expired_session_closes_at_the_next_request(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            setup.timers.advance(4.9)
            assert await client.metadata()
            setup.timers.advance(0.2)
            assert not setup.connection.closed
            assert not await client.metadata()

        run(scenario, 5000)

    def test_an_expired_session_ends_the_bulk_path(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            setup.connection.bulk_paths = object()  # type: ignore[assignment]
            setup.timers.advance(5)
            assert setup.connection.bulk_paths is None

        run(scenario, 5000)

    @pytest.mark.parametrize("seconds", [4, 6])
    def test_re_authentication_before_and_after_the_end(self, seconds: float) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            setup.timers.advance(seconds)
            await self.login(client)
            setup.timers.advance(4.9)
            assert await client.metadata()

        run(scenario, 5000)

    def test_re_authentication_at_most_once_a_second(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            setup.timers.advance(1)
            await self.login(client)
            setup.timers.advance(0.5)
            assert (await client.handshake()).error_code == 34
            setup.timers.advance(0.5)
            await self.login(client)

        run(scenario, 5000)

    def test_re_authentication_after_the_end_at_most_once_a_second(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake("EXPIRING")
            await client.authenticate(b"alice")
            setup.timers.advance(1)
            setup.clock.ms += 900
            await client.handshake("EXPIRING")
            assert (await client.authenticate(b"alice")).session_lifetime_ms == 100
            setup.timers.advance(0.5)
            client.send(SaslHandshakeRequest(mechanism="EXPIRING"))
            assert await client.frame() is None

        run(scenario)

    def test_a_request_during_re_authentication_closes(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            assert (await client.handshake()).error_code == 0
            assert not await client.metadata()

        run(scenario, 5000)

    def test_another_principal_is_refused(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            await client.handshake()
            setup.timers.started.clear()
            client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0builder"))
            await until_failed(setup)
            setup.timers.advance(1)
            frame = await client.frame()
            assert frame is not None
            response = codec.decode(SaslAuthenticateResponse, memoryview(frame), 0, start=4)
            text = "Cannot change principals during re-authentication from User.alice: User.bob"
            assert (response.error_code, response.error_message) == (58, text)
            assert await client.frame() is None

        run(scenario, 5000)

    def test_another_mechanism_is_refused(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            assert (await client.handshake("EXPIRING")).error_code == 0
            setup.timers.started.clear()
            client.send(SaslAuthenticateRequest(auth_bytes=b"alice"))
            await until_failed(setup)
            setup.timers.advance(1)
            assert await client.frame() is None

        run(scenario, 5000)

    def test_the_session_ends_with_the_credential(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await client.handshake("EXPIRING")
            assert (await client.authenticate(b"alice")).session_lifetime_ms == 1000
            setup.timers.advance(1)
            assert not await client.metadata()

        run(scenario)

    def test_a_closed_connection_leaves_no_timer(self) -> None:
        async def scenario(setup: Setup, client: Client) -> None:
            await self.login(client)
            assert len(setup.timers.timers) == 1
            setup.connection.close()
            assert not setup.timers.timers

        run(scenario, 5000)

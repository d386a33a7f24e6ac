"""Authentication of clients by SASL, before their requests reach the router.

A connection of a listener that uses SASL has an `Authentication`, which is its frame handler until the client is
authenticated. States:

    HANDSHAKE_OR_VERSIONS   ApiVersions or SaslHandshake
    HANDSHAKE               SaslHandshake
    TOKENS                  SaslAuthenticate after SaslHandshake version 1, bare tokens after version 0
    OPEN                    the router handles the frames
    EXPIRED                 the session has expired: SaslHandshake, any other request closes the connection
    WRONG_MECHANISM         re-authentication by another mechanism: the next frame closes the connection
    FAILED                  no frame is taken; the response is sent after a delay, then the connection is closed

A request that its state does not allow closes the connection. Frames are limited to `sasl.server.max.receive.size`
until the client is authenticated.

A session ends with the credential of the client or after `connections.max.reauth.ms` (KIP-368). The client can
re-authenticate before and after that, at most once a second, with the same mechanism and as the same principal. A
timer replaces the handler when the session expires, so that requests within a session cost nothing more; the bulk path
of Produce ends at that moment too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.broker.net.outbox import PendingResponse
from ottla.security import principal
from ottla.security.principal import Principal
from ottla.security.sasl.exchange import Identity, SaslRefused, ServerExchange
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import SIZE, parse_request_header, response_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.base.clock import Clock
    from ottla.broker.net.authentication_failures import AuthenticationFailures
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.edge import FrameHandler

_REAUTHENTICATION_SECONDS_MIN: Final = 1.0


class _State(Enum):
    HANDSHAKE_OR_VERSIONS = "handshake or versions"
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    OPEN = "open"
    EXPIRED = "expired"
    WRONG_MECHANISM = "wrong mechanism"
    FAILED = "failed"


class SaslListener(NamedTuple):
    """What the connections of one listener share."""

    mechanisms: Mapping[str, Callable[[], ServerExchange]]
    """Makes the server side of an exchange, by mechanism; in the order of the settings."""
    reauthentication_ms: Mapping[str, int]
    receive_bytes_max: int
    failures: AuthenticationFailures
    clock: Clock
    loop: asyncio.AbstractEventLoop
    log: FilteringBoundLogger

    def authenticate(self, connection: Connection, handler: FrameHandler) -> Authentication:
        """The authentication of a new connection, whose frames are handled by `handler` afterwards."""
        return Authentication(self, connection, handler)


class _Header(NamedTuple):
    """How to respond to a message of the client: as a response of Kafka, or bare if `version` is None."""

    version: int | None
    correlation_id: int


class Authentication:
    """The state of one connection of a listener that uses SASL."""

    __slots__ = (
        "_exchange",
        "_expires_at",
        "_handler",
        "_listener",
        "_mechanism",
        "_principal",
        "_reauthenticated_at",
        "_state",
        "_timer",
        "_with_header",
    )

    def __init__(self, listener: SaslListener, connection: Connection, handler: FrameHandler) -> None:
        self._listener = listener
        self._handler = handler
        self._state = _State.HANDSHAKE_OR_VERSIONS
        self._mechanism = ""
        self._with_header = False
        self._exchange: ServerExchange | None = None
        self._principal: Principal | None = None
        self._expires_at: float | None = None
        self._reauthenticated_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        connection.handle_frames(self, listener.receive_bytes_max)

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        if len(frame) > self._listener.receive_bytes_max:
            raise RemoteProtocolError(f"frame of {len(frame)} bytes before the client is authenticated")
        if self._state is _State.TOKENS:
            self._token(connection, frame)
            return
        if self._state is _State.WRONG_MECHANISM:
            self._fail(connection, None, "re-authentication by another mechanism")
            return
        api_key, version, correlation_id, _, body = parse_request_header(frame)
        if api_key == ApiKey.API_VERSIONS and self._state is _State.HANDSHAKE_OR_VERSIONS:
            if version in ApiVersionsRequest.SPEC.versions:
                self._state = _State.HANDSHAKE
            self._handler(connection, frame)
        elif api_key == ApiKey.SASL_HANDSHAKE:
            if self._state is _State.EXPIRED and not self._may_reauthenticate():
                raise RemoteProtocolError("the session has expired; re-authentication is not allowed yet")
            self.handshake(connection, frame, body, version, correlation_id)
        elif self._state is _State.EXPIRED:
            raise RemoteProtocolError("the session of the client has expired")
        else:
            raise RemoteProtocolError(f"API {api_key} before the client is authenticated")

    # Handshake

    def reauthenticates(self) -> bool:
        """Whether a SaslHandshake of an open connection begins a re-authentication now."""
        return self._expires_at is not None and self._may_reauthenticate()

    def _may_reauthenticate(self) -> bool:
        last = self._reauthenticated_at
        return last is None or self._listener.loop.time() - last >= _REAUTHENTICATION_SECONDS_MIN

    def handshake(
        self, connection: Connection, frame: memoryview, body: int, version: int, correlation_id: int
    ) -> None:
        """Handle SaslHandshake: the client chooses its mechanism."""
        if version not in SaslHandshakeRequest.SPEC.versions:
            raise RemoteProtocolError(f"SASL_HANDSHAKE version {version} is not served")
        mechanism = codec.decode(SaslHandshakeRequest, frame, version, start=body).mechanism
        again = self._principal is not None
        if again:
            self._reauthenticated_at = self._listener.loop.time()
            self._cancel_timer()
        response = SaslHandshakeResponse(mechanisms=list(self._listener.mechanisms))
        if mechanism not in self._listener.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            header = _Header(version, correlation_id)
            self._fail(connection, _encoded(response, header), "the mechanism is not enabled")
            return
        connection.handle_frames(self, self._listener.receive_bytes_max)
        self._with_header = version > 0
        if again and mechanism != self._mechanism:
            self._state = _State.WRONG_MECHANISM
        else:
            self._mechanism = mechanism
            self._exchange = self._listener.mechanisms[mechanism]()
            self._state = _State.TOKENS
        connection.respond(_encoded(response, _Header(version, correlation_id)))

    # Tokens

    def _token(self, connection: Connection, frame: memoryview) -> None:
        if not self._with_header:
            self._respond(connection, bytes(frame), _Header(None, 0))
            return
        api_key, version, correlation_id, _, body = parse_request_header(frame)
        if api_key != ApiKey.SASL_AUTHENTICATE:
            raise RemoteProtocolError(f"API {api_key} instead of SaslAuthenticate")
        if version not in SaslAuthenticateRequest.SPEC.versions:
            raise RemoteProtocolError(f"SASL_AUTHENTICATE version {version} is not served")
        request = codec.decode(SaslAuthenticateRequest, frame, version, start=body)
        self._respond(connection, bytes(request.auth_bytes), _Header(version, correlation_id))

    def _respond(self, connection: Connection, message: bytes, header: _Header) -> None:
        exchange = self._exchange
        if exchange is None:
            raise RemoteProtocolError("a token without a handshake")
        try:
            result = exchange.respond(message)
        except SaslRefused as refused:
            self._refuse(connection, header, refused)
            return
        if not isinstance(result, Promise):
            if (buffers := self._accept(connection, exchange, header, result)) is not None:
                connection.respond(buffers)
            return
        pending = PendingResponse()
        connection.reserve(pending, exclusive=True)
        result.when_done(partial(self._responded, connection, exchange, header, pending))

    def _responded(
        self,
        connection: Connection,
        exchange: ServerExchange,
        header: _Header,
        pending: PendingResponse,
        response: bytes | None,
        error: BaseException | None,
    ) -> None:
        if connection.closed:
            return
        if isinstance(error, SaslRefused):
            self._refuse(connection, header, error, pending)
        elif response is None:
            self._listener.log.error("authentication failed", peer=connection.peer, exc_info=error)
            connection.close()
        elif (buffers := self._accept(connection, exchange, header, response, pending)) is not None:
            connection.complete(pending, buffers)

    def _accept(
        self,
        connection: Connection,
        exchange: ServerExchange,
        header: _Header,
        response: bytes,
        pending: PendingResponse | None = None,
    ) -> list[bytes] | None:
        """The response to a valid message; None if the client has failed after all."""
        lifetime_ms = 0
        if exchange.identity is not None:
            name = Principal(principal.USER, exchange.identity.name, exchange.identity.token_authenticated)
            if self._principal is not None and self._principal[:2] != name[:2]:
                text = "Cannot change principals during re-authentication from "
                text += f"{self._principal.type}.{self._principal.name}: {name.type}.{name.name}"
                self._refuse(connection, header, SaslRefused(text, shown=text), pending)
                return None
            lifetime_ms = self._open(connection, name, exchange.identity)
        if header.version is None:
            return [SIZE.pack(len(response)), response]
        message = SaslAuthenticateResponse(auth_bytes=response, session_lifetime_ms=lifetime_ms)
        return _encoded(message, header)

    def _refuse(
        self,
        connection: Connection,
        header: _Header,
        refused: SaslRefused,
        pending: PendingResponse | None = None,
    ) -> None:
        buffers = None
        if header.version is not None and not refused.retriable:
            what = "authentication" if self._principal is None else "re-authentication"
            generic = f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=refused.shown or generic + self._mechanism,
            )
            buffers = _encoded(response, header)
        self._fail(connection, buffers, str(refused), pending)

    # Sessions

    def _open(self, connection: Connection, name: Principal, identity: Identity) -> int:
        """The client is authenticated: begin its session, and return its length in milliseconds, 0 if unlimited."""
        listener = self._listener
        self._principal = name
        self._exchange = None
        self._state = _State.OPEN
        connection.origin = connection.origin.authenticated(name)
        connection.handle_frames(self._handler, None)
        limits = []
        if identity.expires_ms is not None:
            limits.append(max(0, identity.expires_ms - listener.clock.now_ms()))
        if longest := listener.reauthentication_ms.get(self._mechanism, 0):
            limits.append(longest)
        if not limits:
            self._expires_at = None
            return 0
        lifetime_ms = min(limits)
        self._expires_at = listener.loop.time() + lifetime_ms / 1000
        self._timer = listener.loop.call_later(lifetime_ms / 1000, self._expire, connection)
        return lifetime_ms

    def _expire(self, connection: Connection) -> None:
        self._timer = None
        if self._state is _State.OPEN and not connection.closed:
            self._state = _State.EXPIRED
            connection.handle_frames(self, self._listener.receive_bytes_max)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def closed(self) -> None:
        """The connection is closed."""
        self._cancel_timer()

    # Failures

    def _fail(
        self,
        connection: Connection,
        buffers: list[bytes] | None,
        reason: str,
        pending: PendingResponse | None = None,
    ) -> None:
        """Send the response, if there is one, after the delay of failures, and close the connection."""
        self._state = _State.FAILED
        self._exchange = None
        listener = self._listener
        listener.log.info(
            "authentication failed", peer=connection.peer, mechanism=self._mechanism, reason=reason
        )
        delay = listener.failures.failed(connection.ip, listener.loop.time())
        if delay is None:
            connection.close()
            return
        if pending is None:
            pending = PendingResponse()
            connection.reserve(pending, exclusive=True)
        listener.loop.call_later(delay, self._finish, connection, pending, buffers)

    def _finish(self, connection: Connection, pending: PendingResponse, buffers: list[bytes] | None) -> None:
        self._listener.failures.released(connection.ip)
        if connection.closed:
            return
        if buffers is None:
            connection.close()
            return
        connection.complete(pending, buffers)
        connection.drain()


def _encoded(message: Message, header: _Header) -> list[bytes]:
    return [response_frame(message, header.version or 0, header.correlation_id)]

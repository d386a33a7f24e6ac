"""Connection to one other node: opened on demand, with timeouts, and reopened after a back-off.

States:

    IDLE        no connection. A request or `connect` opens one, at once or when the back-off has passed.
    WAITING     a request waits for the end of the back-off.
    CONNECTING  a connection attempt is in progress.
    OPEN        connected; the API versions are being negotiated, this node authenticates, or requests are sent.
    CLOSED      `close` was called.

Requests made in IDLE, WAITING and CONNECTING are queued until the connection is open; if the attempt fails, they
fail with it. A caller that repeats a failed request at once is thereby limited to the rate of the back-off. A
failure of the connection fails all requests. A request in flight that is not completed in time closes the
connection, as in Kafka's network client: use separate connections for requests that wait long, such as Fetch.

Concurrency: the event loop only.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog

from ottla.base.errors import RemoteProtocolError
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.base.timer import TimerHandle
from ottla.peer.backoff import Backoff
from ottla.peer.connect import Cancel, Connect
from ottla.peer.errors import PeerError, Reason
from ottla.peer.exchange import Exchange, RawResponse, Request
from ottla.peer.settings import PeerSettings
from ottla.peer.transport import Transport
from ottla.security.sasl.exchange import SaslError, Work
from ottla.security.tls.stream import describe
from ottla.wire.frame_reader import FrameReader
from ottla.wire.frames import EncodedRequest
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.security.sasl.login import Login

R = TypeVar("R", bound=Message)
_log = structlog.get_logger(__name__)
_SESSION_SHARE: Final = (0.85, 0.95)
"""The share of a session after which this node re-authenticates; random, so that nodes do not do it together."""


class Timers(Protocol):
    """The clock and the timers of the event loop."""

    def time(self) -> float:
        """Seconds of a monotonic clock."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> TimerHandle:
        """Call `callback` once after `delay` seconds."""
        ...


class Environment:
    """Ports that all connections of a node share."""

    __slots__ = ("connect", "login", "open_transport", "receive_buffer", "rng", "timers")

    def __init__(
        self,
        timers: Timers,
        connect: Connect,
        open_transport: Callable[[socket.socket, str], Transport],
        rng: Random,
        receive_buffer: memoryview,
        login: Login | None = None,
    ) -> None:
        self.timers = timers
        self.connect = connect
        self.open_transport = open_transport
        """Open the transport of a connected socket; the second argument is the name of the host."""
        self.rng = rng
        self.receive_buffer = receive_buffer
        """Where responses of up to `LARGE_FRAME_BYTES` are received; at least twice that size."""
        self.login = login
        """The login by SASL; None without one."""


class ConnectionListener(Protocol):
    """Callbacks of a connection: the evidence for failure detection."""

    def on_connected(self) -> None:
        """The connection is open and the other side has reported its API versions."""
        ...

    def on_disconnected(self, error: PeerError) -> None:
        """A connection attempt failed, or the open connection was lost. Not called by `close`."""
        ...


class _State(Enum):
    IDLE = "idle"
    WAITING = "waiting"
    CONNECTING = "connecting"
    OPEN = "open"
    CLOSED = "closed"


class PeerConnection:
    """A connection to `host:port`. `name` describes the node in error messages."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        settings: PeerSettings,
        environment: Environment,
        listener: ConnectionListener,
    ) -> None:
        self.host = host
        self.port = port
        self._name = f"{name} at {host}:{port}"
        self._settings = settings
        self._environment = environment
        self._timers = environment.timers
        self._listener = listener
        self._backoff = Backoff(
            settings.reconnect_backoff_s, settings.reconnect_backoff_max_s, environment.rng
        )
        self._state = _State.IDLE
        self._retry_at = self._timers.time()
        self._cancel_attempt: Cancel | None = None
        self._transport: Transport | None = None
        self._exchange = self._new_exchange()
        self._reader = self._new_reader()
        self._warned = ""
        """The failure of authentication that was logged, so that each is logged once."""
        self._setup_deadline: float | None = None
        self._reauthenticate_at: float | None = None
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def connected(self) -> bool:
        """Whether requests are sent at once."""
        return self._state is _State.OPEN and self._exchange.ready

    def request(
        self, message: Message, response: type[R], *, timeout_s: float, versions: range | None = None
    ) -> Promise[R]:
        """Send a request in the newest version in `versions` that both sides serve; PeerError if it fails."""
        return self._submit(Request(message, response, versions, self._timers.time() + timeout_s))

    def request_raw(
        self,
        message: Message | EncodedRequest,
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[RawResponse]:
        """As `request`, with a response that is not decoded and not copied if it is large."""
        return self._submit(Request(message, None, versions, self._timers.time() + timeout_s))

    def connect(self) -> None:
        """Open the connection if it is not open, after the back-off if there is one."""
        if self._state is not _State.IDLE:
            return
        if self._timers.time() >= self._retry_at:
            self._open()
        else:
            self._state = _State.WAITING
            self._arm_timer(self._retry_at)

    def close(self) -> None:
        """Close the connection and fail all requests."""
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        exchange = self._disconnect()
        exchange.fail(Reason.SHUTDOWN, f"the connection to {self._name} was closed by this node")

    def _submit(self, request: Request) -> Promise[Any]:
        if self._state is _State.CLOSED:
            request.fail(Reason.SHUTDOWN, f"the connection to {self._name} was closed by this node")
            return request.promise
        self._exchange.submit(request)
        if not request.promise.done:
            self.connect()
            self._arm_timer(request.deadline)
            self._send_output()
        return request.promise

    # Connection attempts

    def _open(self) -> None:
        self._state = _State.CONNECTING
        self._setup_deadline = self._timers.time() + self._settings.connection_setup_timeout_s
        self._arm_timer(self._setup_deadline)
        self._cancel_attempt = self._environment.connect(self.host, self.port, self._attempt_done)

    def _attempt_done(self, sock: socket.socket | None, error: OSError | None) -> None:
        self._cancel_attempt = None
        if sock is None:
            refused = isinstance(error, ConnectionRefusedError)
            reason = Reason.REFUSED if refused else Reason.UNREACHABLE
            self._fail(reason, f"no connection to {self._name}: {error}")
            return
        self._state = _State.OPEN
        transport = self._transport = self._environment.open_transport(sock, self.host)
        transport.start(self._on_readable, self._on_failed)
        self._exchange.start(self._setup_deadline or inf)
        self._send_output()

    # Bytes

    def _send_output(self) -> None:
        if self._transport is not None:
            output = self._exchange.take_output()
            if output:
                self._transport.send(output)

    def _on_failed(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLError):
            self._fail(Reason.AUTHENTICATION_FAILED, f"no TLS connection to {self._name}: {describe(error)}")
        else:
            self._fail(Reason.CLOSED, f"{self._name} closed the connection: {error}")

    def _on_readable(self) -> None:
        reader, transport = self._reader, self._transport
        if transport is None:
            return
        try:
            count = transport.receive_into(reader.target(self._environment.receive_buffer))
        except (BlockingIOError, InterruptedError):
            reader.park()
            return
        except OSError as error:
            self._on_failed(error)
            return
        if not count:
            self._fail(Reason.CLOSED, f"{self._name} closed the connection")
            return
        reader.received(count)
        try:
            self._take_frames()
        except RemoteProtocolError as error:
            self._fail(Reason.PROTOCOL_ERROR, str(error))
        except SaslError as error:
            self._fail(Reason.AUTHENTICATION_FAILED, str(error))
        if self._transport is transport:
            transport.expect(reader.expected)

    def _take_frames(self) -> None:
        """Process every complete frame.

        Small frames are copied out of the shared receive buffer first: a listener may keep views of a response.
        """
        reader = self._reader
        frames: list[memoryview] = []
        while (frame := reader.peek()) is not None:
            frames.append(frame if reader.in_large_frame else memoryview(bytes(frame)))
            reader.drop(frame)
        reader.park()
        for frame in frames:
            was_ready = self._exchange.ready
            self._exchange.receive(frame)
            if self._reader is not reader:
                return  # a listener closed the connection
            self._send_output()
            if self._exchange.session_ms is not None:
                self._begin_session(self._exchange.session_ms)
            if not was_ready and self._exchange.ready:
                self._backoff.succeeded()
                self._warned = ""
                self._setup_deadline = None
                self._listener.on_connected()
                if self._reader is not reader:
                    return

    def _new_reader(self) -> FrameReader:
        return FrameReader(self._settings.response_bytes_max, _ignore)

    # Authentication

    def _new_exchange(self) -> Exchange:
        return Exchange(self._name, self.host, self._settings, self._environment.login, self._run)

    def _run(self, work: Work, done: Callable[[Any, BaseException | None], None]) -> None:
        """Run work of the authentication beside the event loop."""
        exchange, login = self._exchange, self._environment.login

        def finished(result: Any, error: BaseException | None) -> None:
            if self._exchange is not exchange or self._state is not _State.OPEN:
                return
            try:
                done(result, error)
            except SaslError as refused:
                self._fail(Reason.AUTHENTICATION_FAILED, str(refused))
            else:
                self._send_output()

        if login is not None:
            login.run(work).when_done(finished)

    def _begin_session(self, session_ms: int) -> None:
        """Re-authenticate when most of the session has passed, as Kafka's clients do."""
        self._exchange.session_ms = None
        self._reauthenticate_at = None
        if session_ms > 0:
            share = self._environment.rng.uniform(*_SESSION_SHARE)
            self._reauthenticate_at = self._timers.time() + session_ms / 1000 * share
            self._arm_timer(self._reauthenticate_at)

    # Timeouts

    def _arm_timer(self, deadline: float) -> None:
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._timers.call_later(max(0.0, deadline - self._timers.time()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._timers.time()
        if self._state is _State.WAITING and now >= self._retry_at:
            self._open()
        if self._reauthenticate_at is not None and now >= self._reauthenticate_at:
            self._reauthenticate_at = None
            self._exchange.reauthenticate(now + self._settings.connection_setup_timeout_s)
            self._send_output()
        if self._exchange.expire(now):
            self._fail(Reason.TIMED_OUT, f"{self._name} did not respond in time")
        elif self._setup_deadline is not None and now >= self._setup_deadline:
            self._fail(Reason.TIMED_OUT, f"no connection to {self._name} in time")
        if self._state is _State.CLOSED:
            return
        deadlines = [self._exchange.next_deadline(), self._setup_deadline, self._reauthenticate_at]
        if self._state is _State.WAITING:
            deadlines.append(self._retry_at)
        if remaining := [deadline for deadline in deadlines if deadline is not None]:
            self._arm_timer(min(remaining))

    # Failures

    def _fail(self, reason: Reason, why: str) -> None:
        """Close the connection, prepare the next one, fail all requests and notify the listener."""
        if reason is Reason.AUTHENTICATION_FAILED and why != self._warned:
            # Unlike other failures it does not end by itself: an operator has to correct a setting or a certificate.
            self._warned = why
            _log.warning("a connection to another node is not possible", reason=why)
        self._state = _State.IDLE
        self._retry_at = self._timers.time() + self._backoff.failed()
        failed = self._disconnect()
        self._exchange = self._new_exchange()
        failed.fail(reason, why)
        self._listener.on_disconnected(PeerError(reason, why))

    def _disconnect(self) -> Exchange:
        if self._cancel_attempt is not None:
            self._cancel_attempt()
            self._cancel_attempt = None
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._setup_deadline = self._reauthenticate_at = None
        self._reader.close()
        self._reader = self._new_reader()
        return self._exchange


def _ignore(_: int) -> None:
    """Memory of frames is limited by `response_bytes_max` only."""

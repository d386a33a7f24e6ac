"""Protocol of one connection to another node: frames in, frames out, without a socket or a clock.

An exchange first learns the API versions of the other side (`start`), then authenticates itself by SASL if it has a
login (`peer.authentication`). Requests submitted before that are queued. It then sends each request in the newest
version that both sides serve. Responses arrive in the order of the requests; each must have the correlation id of the
oldest request in flight.

The exchange appends what is to be sent to an output list, which the owner takes with `take_output` after each call.
`reauthenticate` begins a new session (KIP-368): further requests are queued until it is complete.

`receive` raises SaslError if one side does not accept the credentials of the other.

Promises are settled within `submit`, `receive`, `expire` and `fail`; their listeners may submit further requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any

from ottla.base.errors import RemoteProtocolError, invariant
from ottla.base.promise import Promise
from ottla.peer.errors import PeerError, Reason
from ottla.peer.settings import PeerSettings
from ottla.peer.transport import Buffer
from ottla.wire import codec, negotiation
from ottla.wire.frames import (
    EncodedRequest,
    correlation_id_of,
    parse_response_header,
    request_name,
    request_parts,
)
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.security.sasl.exchange import Work
    from ottla.security.sasl.login import Login

Run = Callable[["Work", Callable[[Any, BaseException | None], None]], None]
"""Run work of an authentication beside the event loop, then call back unless the connection is closed."""
_CORRELATION_ID_MAX = 0x7FFF_FFFF
_JOINED_BYTES_MAX = 16 * 1024
"""The parts of a request up to this size are sent as one buffer: an encoded message has many parts."""


class RawResponse:
    """A response that is not decoded. The frame has its own memory: views of it may be kept."""

    __slots__ = ("body_start", "frame", "version")

    def __init__(self, version: int, frame: memoryview, body_start: int) -> None:
        self.version = version
        self.frame = frame
        self.body_start = body_start


class Request:
    """A request that waits for its response."""

    __slots__ = (
        "bytes_sent",
        "correlation_id",
        "deadline",
        "message",
        "promise",
        "response",
        "version",
        "versions",
    )

    def __init__(
        self,
        message: Message | EncodedRequest,
        response: type[Message] | None,
        versions: range | None,
        deadline: float,
    ) -> None:
        self.message = message
        self.response = response
        """The class of the response; None for a raw response."""
        self.versions = message.SPEC.versions if versions is None else versions
        self.deadline = deadline
        self.promise: Promise[Any] = Promise()
        self.version = -1
        self.correlation_id = -1
        self.bytes_sent = 0

    def fail(self, reason: Reason, why: str) -> None:
        name = request_name(self.message)
        self.promise.fail(PeerError(reason, f"{name}: {why}", sent=bool(self.bytes_sent)))


class _State(Enum):
    NEW = "new"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    REAUTHENTICATING = "re-authenticating"
    FAILED = "failed"


def _no_work(work: Work, done: Callable[[Any, BaseException | None], None]) -> None:
    """Without a login there is no work."""


class Exchange:
    """The requests and responses of one connection to `peer`, a node on `host`."""

    def __init__(
        self, peer: str, host: str, settings: PeerSettings, login: Login | None = None, run: Run = _no_work
    ) -> None:
        self._peer = peer
        self._host = host
        self._settings = settings
        self._login = login
        self._run = run
        self._setup_deadline = 0.0
        self.session_ms: int | None = None
        """The length of the session that has just begun; the owner sets it to None."""
        self._state = _State.NEW
        self._versions: dict[int, range] = {}
        self._api_versions_version = negotiation.NEWEST
        self._correlation_id = 0
        self._queued: deque[Request] = deque()
        self._in_flight: deque[Request] = deque()
        self._output: list[Buffer] = []
        self.bytes_in_flight = 0

    @property
    def ready(self) -> bool:
        """Whether the API versions of the other side are known and this side is authenticated."""
        return self._state in (_State.READY, _State.REAUTHENTICATING)

    @property
    def requests(self) -> int:
        """The number of requests that wait for their response."""
        return len(self._queued) + len(self._in_flight)

    def take_output(self) -> list[Buffer]:
        """The buffers to send, in order; each is returned once."""
        output, self._output = self._output, []
        return output

    def start(self, deadline: float = inf) -> None:
        """Request the API versions; the connection has just been opened and must be ready at `deadline`."""
        invariant(self._state is _State.NEW, "an exchange starts once")
        self._setup_deadline = deadline
        self._state = _State.NEGOTIATING
        self._send_api_versions()

    def submit(self, request: Request) -> None:
        """Send a request, or queue it until the connection is ready."""
        invariant(self._state is not _State.FAILED, "no request is submitted to a failed exchange")
        if self.requests >= self._settings.requests_in_flight_max:
            request.fail(Reason.OVERLOADED, f"{self.requests} requests to {self._peer} are in flight")
        elif self._state is _State.READY:
            self._send(request)
        else:
            self._queued.append(request)

    def reauthenticate(self, deadline: float) -> None:
        """Authenticate again, behind the requests in flight; a response must arrive until `deadline`."""
        if self._state is _State.READY:
            self._state = _State.REAUTHENTICATING
            self._authenticate(deadline)

    def receive(self, frame: memoryview) -> None:
        """Process a response; RemoteProtocolError if it is not the expected one. `frame` must not be overwritten."""
        correlation_id = correlation_id_of(frame)
        if self._state is _State.NEGOTIATING:
            self._check_correlation_id(correlation_id, self._correlation_id)
            self._negotiate(frame)
            return
        if not self._in_flight:
            raise RemoteProtocolError(f"{self._peer} sent a response without a request")
        request = self._in_flight[0]
        self._check_correlation_id(correlation_id, request.correlation_id)
        value = self._decode(request, frame)
        self._in_flight.popleft()
        self.bytes_in_flight -= request.bytes_sent
        request.promise.keep(value)

    def next_deadline(self) -> float | None:
        """The earliest deadline of all requests."""
        deadlines = [request.deadline for request in (*self._queued, *self._in_flight)]
        earliest = min(deadlines, default=inf)
        return None if earliest == inf else earliest

    def expire(self, now: float) -> bool:
        """Fail queued requests past their deadline; return whether a request in flight is past its deadline.

        Because responses are in order, a response that does not arrive also blocks all later ones: the owner then
        closes the connection.
        """
        expired = [request for request in self._queued if request.deadline <= now]
        if expired:
            self._queued = deque(request for request in self._queued if request.deadline > now)
        for request in expired:
            request.fail(Reason.TIMED_OUT, f"no connection to {self._peer} in time")
        return any(request.deadline <= now for request in self._in_flight)

    def fail(self, reason: Reason, why: str) -> None:
        """Fail all requests; the connection is closed."""
        self._state = _State.FAILED
        failed = [*self._in_flight, *self._queued]
        self._in_flight.clear()
        self._queued.clear()
        self._output.clear()
        self.bytes_in_flight = 0
        for request in failed:
            request.fail(reason, why)

    def _check_correlation_id(self, received: int, expected: int) -> None:
        if received != expected:
            raise RemoteProtocolError(f"{self._peer} sent response {received} instead of {expected}")

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        return self._correlation_id

    def _send_api_versions(self) -> None:
        self._output += request_parts(
            negotiation.api_versions_request(),
            self._api_versions_version,
            self._next_correlation_id(),
            self._settings.client_id,
        )

    def _negotiate(self, frame: memoryview) -> None:
        try:
            response = negotiation.read_api_versions(frame, self._api_versions_version)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{self._peer} {error}") from error
        if response is None:
            self._api_versions_version = negotiation.OLDEST
            self._send_api_versions()
            return
        self._versions = negotiation.served_versions(response)
        if self._login is None:
            self._become_ready()
        else:
            self._state = _State.AUTHENTICATING
            self._authenticate(self._setup_deadline)

    def _authenticate(self, deadline: float) -> None:
        from ottla.peer.authentication import PeerAuthentication

        def send(message: Message, response: type[Message], versions: range | None) -> Promise[Any]:
            request = Request(message, response, versions, deadline)
            self._send(request, limited=False)
            return request.promise

        if self._login is not None:
            authenticated = self._authenticated
            PeerAuthentication(self._peer, self._host, self._login, send, self._run, authenticated).start()

    def _authenticated(self, session_ms: int) -> None:
        self.session_ms = session_ms
        self._become_ready()

    def _become_ready(self) -> None:
        self._state = _State.READY
        queued, self._queued = self._queued, deque()
        for request in queued:
            self._send(request)

    def _send(self, request: Request, *, limited: bool = True) -> None:
        message = request.message
        served = self._versions.get(message.SPEC.api_key)
        if served is None:
            request.fail(Reason.NOT_SERVED, f"{self._peer} does not serve this API")
            return
        version = negotiation.newest_common(request.versions, served)
        if version is None:
            allowed = f"{request.versions[0]} to {request.versions[-1]}" if request.versions else "none"
            request.fail(Reason.UNSUPPORTED_VERSION, f"{self._peer} serves none of the versions {allowed}")
            return
        correlation_id = self._next_correlation_id()
        parts = request_parts(message, version, correlation_id, self._settings.client_id)
        size = sum(map(len, parts))
        occupied = self.bytes_in_flight
        if limited and occupied and occupied + size > self._settings.bytes_in_flight_max:
            request.fail(Reason.OVERLOADED, f"{self.bytes_in_flight} bytes to {self._peer} are in flight")
            return
        request.version, request.correlation_id, request.bytes_sent = version, correlation_id, size
        self.bytes_in_flight += size
        self._in_flight.append(request)
        if size <= _JOINED_BYTES_MAX:
            self._output.append(b"".join(parts))
        else:
            self._output += parts

    def _decode(self, request: Request, frame: memoryview) -> Message | RawResponse:
        _, start = parse_response_header(frame, request.message.SPEC.api_key, request.version)
        if request.response is None:
            return RawResponse(request.version, frame, start)
        return codec.decode(request.response, frame, request.version, start=start)

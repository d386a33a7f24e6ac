"""Blocking connection to one broker: responses in order, several requests in flight.

`send` returns a pending request, `receive` waits for its response. Responses that arrive before it are kept for
their requests. A connection that has failed stays closed: every call raises `ConnectionLost`, and the caller gets a
new connection from its cluster. Threads may share a connection; `lock` serializes their calls.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections import deque
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import RemoteProtocolError
from ottla.client.raw.errors import AuthenticationFailed, ConnectionLost, Unsupported
from ottla.client.raw.settings import ClientSettings, Sasl
from ottla.security.sasl.exchange import SaslError, run_client
from ottla.wire import codec, negotiation
from ottla.wire.frames import SIZE, correlation_id_of, parse_response_header, request_parts
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)

FRAME_BYTES_MAX = 512 << 20
"""Far above `fetch.max.bytes`: a larger size is not the response of a broker."""
_PARTS_MAX = 512
"""Below the limit of every system for the buffers of one `sendmsg`."""
_SESSION_SHARE = 0.85
"""The share of a session after which the client re-authenticates, before its next request."""
_FIRST_REQUESTS = 3
"""ApiVersions, perhaps twice, and the first request that needs a login."""
_CLOSED_BY_PEER = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors of TLS if the other side closes the connection."""


class PendingRequest(NamedTuple):
    """A request that was sent and whose response was not received yet."""

    correlation: int
    api_key: int
    version: int


class Connection:
    """An open connection. The constructor raises ConnectionLost, AuthenticationFailed or Unsupported."""

    def __init__(
        self,
        host: str,
        port: int,
        settings: ClientSettings,
        context: ssl.SSLContext | None,
        clock: Clock | None = None,
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._reauthenticate_at: float | None = None
        self._host = host
        self.address = f"{host}:{port}"
        self.lock = threading.RLock()
        self.closed = False
        self.versions: dict[int, range] = {}
        self.features: dict[str, int] = {}
        self._settings = settings
        self._correlation = 0
        self._in_flight: deque[int] = deque()
        self._responses: dict[int, memoryview] = {}
        self._discarded: set[int] = set()
        self._timeout = settings.request_timeout_ms / 1000
        self._socket = self._connect(host, port, context)
        try:
            self._negotiate()
            if settings.sasl is not None:
                self._authenticate(settings.sasl)
        except BaseException:
            self.close()
            raise

    def _connect(self, host: str, port: int, context: ssl.SSLContext | None) -> socket.socket:
        try:
            plain = socket.create_connection((host, port), self._settings.connect_timeout_ms / 1000)
        except OSError as error:
            raise ConnectionLost(f"{self.address} cannot be reached: {error}") from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return plain
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise AuthenticationFailed(
                f"the certificate of {self.address} is not trusted: {error.verify_message}"
                " (ssl.ca.location names the authorities to trust)"
            ) from error
        except OSError as error:
            plain.close()
            message = (
                f"no TLS with {self.address}: {error} (check that security.protocol matches the listener)"
            )
            # A broker that restarts also closes the connection. Only errors of TLS itself are final.
            is_final = isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED_BY_PEER)
            raise (AuthenticationFailed if is_final else ConnectionLost)(message) from error

    def close(self) -> None:
        self.closed = True
        if hasattr(self, "_socket"):
            self._socket.close()

    # --- one request

    def version_of(self, request: type[Message], newest: int | None = None) -> int:
        """The newest version that both sides serve, at most `newest`."""
        ours, theirs = request.SPEC.versions, self.versions.get(request.SPEC.api_key)
        if newest is not None:
            ours = range(ours[0], min(ours[-1], newest) + 1)
        version = negotiation.newest_common(ours, theirs)
        if version is None:
            served = f"versions {theirs[0]} to {theirs[-1]}" if theirs else "no version"
            name = request.__name__.removesuffix("Request")
            raise Unsupported(
                f"{self.address} serves {served} of {name}; this client needs {ours[0]} to {ours[-1]}"
            )
        return version

    def request(self, request: Message, response: type[R], *, newest: int | None = None) -> R:
        """Send a request and wait for its response."""
        with self.lock:
            return self.receive(self.send(request, newest=newest), response)

    def send(
        self, request: Message, *, newest: int | None = None, version: int | None = None
    ) -> PendingRequest:
        """Send a request; `receive` returns its response."""
        with self.lock:
            if self._reauthenticate_at is not None and self._clock.monotonic() >= self._reauthenticate_at:
                self._reauthenticate()
            if version is None:
                version = self.version_of(type(request), newest)
            self._correlation = (self._correlation + 1) & 0x7FFFFFFF
            pending = PendingRequest(self._correlation, request.SPEC.api_key, version)
            self._write(request_parts(request, version, pending.correlation, self._settings.client_id))
            self._in_flight.append(pending.correlation)
            return pending

    def receive(self, pending: PendingRequest, response: type[R], *, extra_timeout_s: float = 0.0) -> R:
        """Wait for the response; `extra_timeout_s` is the time that the request allows the broker to wait."""
        with self.lock:
            frame = self._response_frame(pending.correlation, extra_timeout_s)
        try:
            _, start = parse_response_header(frame, pending.api_key, pending.version)
            return codec.decode(response, frame, pending.version, start=start)
        except RemoteProtocolError as error:
            raise self._lost(f"sent a response that cannot be decoded: {error}") from error

    def discard(self, pending: PendingRequest) -> None:
        """Drop the response of a request when it arrives. No effect if it was received already."""
        with self.lock:
            if (
                self._responses.pop(pending.correlation, None) is None
                and pending.correlation in self._in_flight
            ):
                self._discarded.add(pending.correlation)

    def _response_frame(self, correlation: int, extra_timeout_s: float) -> memoryview:
        while correlation not in self._responses:
            if self.closed:
                raise ConnectionLost(f"the connection to {self.address} was closed")
            frame = self._read_frame(extra_timeout_s)
            got = correlation_id_of(frame)
            if not self._in_flight or got != self._in_flight.popleft():
                raise self._lost(f"sent response {got}, which does not match the oldest request")
            if got in self._discarded:
                self._discarded.discard(got)
            else:
                self._responses[got] = frame
        return self._responses.pop(correlation)

    # --- bytes

    def _lost(self, why: str) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"{self.address} {why}")

    def _ended(self, detail: str = "") -> ConnectionLost:
        """The broker has closed the connection. At once, it may expect TLS or a login."""
        is_new = self._settings.sasl is None and self._correlation <= _FIRST_REQUESTS
        hint = " (check that security.protocol matches the listener)" if is_new else ""
        return self._lost(f"closed the connection{detail}{hint}")

    def _write(self, parts: list[Any]) -> None:
        if self.closed:
            raise ConnectionLost(f"the connection to {self.address} was closed")
        try:
            self._socket.settimeout(self._timeout)
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.sendall(b"".join(parts))
                return
            for first in range(0, len(parts), _PARTS_MAX):
                self._write_gathered(parts[first : first + _PARTS_MAX])
        except OSError as error:
            raise self._lost(f"did not accept the request: {error}") from error

    def _write_gathered(self, parts: list[Any]) -> None:
        sent = self._socket.sendmsg(parts)
        for part in parts:
            if sent >= len(part):
                sent -= len(part)
            else:
                self._socket.sendall(memoryview(part)[sent:])
                sent = 0

    def _read_frame(self, extra_timeout_s: float) -> memoryview:
        self._socket.settimeout(self._timeout + extra_timeout_s)
        (size,) = SIZE.unpack(self._read(SIZE.size))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise self._lost(f"announced a response of {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        position = 0
        while position < size:
            try:
                got = self._socket.recv_into(view[position:])
            except TimeoutError as error:
                raise self._lost("did not respond in time") from error
            except OSError as error:
                raise self._ended(f": {error}") from error
            if got == 0:
                raise self._ended()
            position += got
        return view

    # --- negotiation and authentication

    def _negotiate(self) -> None:
        """Request the API versions and the finalized features of the broker."""
        self._timeout = min(self._timeout, self._settings.connect_timeout_ms / 1000)
        response = self._api_versions(negotiation.NEWEST) or self._api_versions(negotiation.OLDEST)
        self._timeout = self._settings.request_timeout_ms / 1000
        if response is not None:
            self.versions = negotiation.served_versions(response)
            self.features = {
                feature.name: feature.max_version_level for feature in response.finalized_features
            }

    def _api_versions(self, version: int) -> ApiVersionsResponse | None:
        pending = self.send(negotiation.api_versions_request(), version=version)
        with self.lock:
            frame = self._response_frame(pending.correlation, 0.0)
        try:
            return negotiation.read_api_versions(frame, version)
        except RemoteProtocolError as error:
            raise self._lost(str(error)) from error

    def _authenticate(self, sasl: Sasl) -> None:
        """Authenticate this client, or begin a new session (KIP-368)."""
        import secrets  # and the mechanisms: most clients do not use them

        from ottla.security.sasl.login import client_exchange
        from ottla.security.sasl.oauth.endpoints import fetch_token
        from ottla.security.sasl.settings import Credentials

        self._reauthenticate_at = None
        handshake = self.request(SaslHandshakeRequest(mechanism=sasl.mechanism), SaslHandshakeResponse)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self.address} does not offer {sasl.mechanism}, it offers: {offered}"
            )
        session_ms = 0

        def send(message: bytes) -> bytes:
            nonlocal session_ms
            response = self._send_token(message, sasl)
            session_ms = response.session_lifetime_ms
            return bytes(response.auth_bytes)

        options = {"username": sasl.username, "password": sasl.password}
        if sasl.delegation_token:
            options["tokenauth"] = "true"
        token = None if sasl.tokens is None else partial(fetch_token, sasl.tokens)
        credentials = Credentials(sasl.mechanism, options, sasl.tokens, sasl.kerberos)
        try:
            run_client(
                client_exchange(credentials, self._host, lambda: secrets.token_urlsafe(24), token), send
            )
        except SaslError as error:
            raise AuthenticationFailed(f"{self.address}: {error}") from error
        if session_ms > 0:
            self._reauthenticate_at = self._clock.monotonic() + session_ms / 1000 * _SESSION_SHARE

    def _reauthenticate(self) -> None:
        """Begin a new session; the connection is closed if the broker refuses."""
        try:
            if self._settings.sasl is not None:
                self._authenticate(self._settings.sasl)
        except BaseException:
            self.close()
            raise

    def _send_token(self, message: bytes, sasl: Sasl) -> SaslAuthenticateResponse:
        try:
            response = self.request(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
        except ConnectionLost as error:
            raise ConnectionLost(
                f"{error} during the authentication of {sasl.username}"
                " (some brokers close the connection if the password is wrong)"
            ) from error
        if response.error_code:
            why = response.error_message or f"error {response.error_code}"
            raise AuthenticationFailed(f"{self.address} rejected user {sasl.username}: {why}")
        return response

"""One connection to one broker: blocking, in order, several requests under way at once.

`send` returns a ticket, `receive` the answer to it; answers that others wait for are kept for them. A connection that
failed once is closed and stays so: whoever uses it gets `ConnectionLost`, and asks its cluster for a new one. Used
from several threads one call at a time, under `lock`.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
from collections import deque
from typing import Any, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode, LocalError, RemoteProtocolError
from ottla.client.raw.errors import AuthenticationFailed, ConnectionLost, Unsupported
from ottla.client.raw.sasl import exchange_of
from ottla.client.raw.settings import ClientSettings, Sasl
from ottla.wire import codec
from ottla.wire.frames import SIZE, correlation_id_of, parse_response_header, request_parts
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)

FRAME_BYTES_MAX = 512 << 20
"""Far above `fetch.max.bytes`: a larger size is no answer of a broker's."""
_PARTS_MAX = 512
"""Fewer than any system's limit for one gathering write."""
_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""How TLS tells of a connection that ended, with a farewell or without."""


class Ticket(NamedTuple):
    """A request under way."""

    correlation: int
    api_key: int
    version: int


class Connection:
    """Open once made; raises ConnectionLost, AuthenticationFailed or Unsupported if that fails."""

    def __init__(
        self, host: str, port: int, settings: ClientSettings, context: ssl.SSLContext | None
    ) -> None:
        self.address = f"{host}:{port}"
        self.lock = threading.RLock()
        self.closed = False
        self.versions: dict[int, range] = {}
        self.features: dict[str, int] = {}
        self._settings = settings
        self._correlation = 0
        self._under_way: deque[int] = deque()
        self._answers: dict[int, memoryview] = {}
        self._unwanted: set[int] = set()
        self._timeout = settings.request_timeout_ms / 1000
        self._socket = self._connect(host, port, context)
        try:
            self._learn_versions()
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
            told = f"no TLS with {self.address}: {error} (does security.protocol fit that listener?)"
            # A broker that restarts hangs up too; only what TLS itself objects to would be the same again.
            is_final = isinstance(error, ssl.SSLError) and not isinstance(error, _HUNG_UP)
            raise (AuthenticationFailed if is_final else ConnectionLost)(told) from error

    def close(self) -> None:
        self.closed = True
        if hasattr(self, "_socket"):
            self._socket.close()

    # --- one request

    def version_of(self, request: type[Message], newest: int | None = None) -> int:
        """The highest version that both sides speak, `newest` at most."""
        ours, theirs = request.SPEC.versions, self.versions.get(request.SPEC.api_key, range(0))
        top = min(ours[-1], theirs[-1] if theirs else -1, ours[-1] if newest is None else newest)
        if not theirs or top < max(ours[0], theirs[0]):
            told = f"{theirs[0]} to {theirs[-1]}" if theirs else "none"
            name = request.__name__.removesuffix("Request")
            raise Unsupported(f"{self.address} speaks {name} in versions {told}, which is not enough")
        return top

    def ask(self, request: Message, response: type[R], *, newest: int | None = None) -> R:
        """Send and wait for the answer."""
        with self.lock:
            return self.receive(self.send(request, newest=newest), response)

    def send(self, request: Message, *, newest: int | None = None, version: int | None = None) -> Ticket:
        """Send a request; its answer waits for `receive`."""
        with self.lock:
            if version is None:
                version = self.version_of(type(request), newest)
            self._correlation = (self._correlation + 1) & 0x7FFFFFFF
            ticket = Ticket(self._correlation, request.SPEC.api_key, version)
            self._write(request_parts(request, version, ticket.correlation, self._settings.client_id))
            self._under_way.append(ticket.correlation)
            return ticket

    def receive(self, ticket: Ticket, response: type[R], *, patience_s: float = 0.0) -> R:
        """The answer to a ticket; `patience_s` is what the broker was allowed to wait on top."""
        with self.lock:
            frame = self._frame_of(ticket.correlation, patience_s)
        try:
            _, start = parse_response_header(frame, ticket.api_key, ticket.version)
            return codec.decode(response, frame, ticket.version, start=start)
        except RemoteProtocolError as error:
            raise self._lost(f"sent what cannot be read: {error}") from error

    def forget(self, ticket: Ticket) -> None:
        """Nobody waits for this answer any more; one that was taken already does no harm."""
        with self.lock:
            if self._answers.pop(ticket.correlation, None) is None and ticket.correlation in self._under_way:
                self._unwanted.add(ticket.correlation)

    def _frame_of(self, correlation: int, patience_s: float) -> memoryview:
        while correlation not in self._answers:
            if self.closed:
                raise ConnectionLost(f"the connection to {self.address} was closed")
            frame = self._read_frame(patience_s)
            got = correlation_id_of(frame)
            if not self._under_way or got != self._under_way.popleft():
                raise self._lost(f"answered {got}, which was not asked")
            if got in self._unwanted:
                self._unwanted.discard(got)
            else:
                self._answers[got] = frame
        return self._answers.pop(correlation)

    # --- bytes

    def _lost(self, why: str) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"{self.address} {why}")

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
            raise self._lost(f"took no request: {error}") from error

    def _write_gathered(self, parts: list[Any]) -> None:
        sent = self._socket.sendmsg(parts)
        for part in parts:
            if sent >= len(part):
                sent -= len(part)
            else:
                self._socket.sendall(memoryview(part)[sent:])
                sent = 0

    def _read_frame(self, patience_s: float) -> memoryview:
        self._socket.settimeout(self._timeout + patience_s)
        (size,) = SIZE.unpack(self._read(SIZE.size))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise self._lost(f"announced an answer of {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        position = 0
        while position < size:
            try:
                got = self._socket.recv_into(view[position:])
            except TimeoutError as error:
                raise self._lost("did not answer in time") from error
            except OSError as error:
                raise self._lost(f"ended the connection: {error}") from error
            if got == 0:
                raise self._lost("ended the connection")
            position += got
        return view

    # --- the first words

    def _learn_versions(self) -> None:
        """ApiVersions in our newest version; a broker that lacks it says so in version 0."""
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        newest = ApiVersionsRequest.SPEC.versions[-1]
        self._timeout = min(self._timeout, self._settings.connect_timeout_ms / 1000)
        ticket = self.send(request, version=newest)
        with self.lock:
            frame = self._frame_of(ticket.correlation, 0.0)
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self.receive(self.send(ApiVersionsRequest(), version=0), ApiVersionsResponse)
        else:
            try:
                answer = codec.decode(ApiVersionsResponse, frame, newest, start=4)
            except (RemoteProtocolError, LocalError) as error:
                raise self._lost(f"is no Kafka broker: {error}") from error
        if answer.error_code:
            raise self._lost(f"does not tell its versions: error {answer.error_code}")
        self._timeout = self._settings.request_timeout_ms / 1000
        self.versions = {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys}
        self.features = {one.name: one.max_version_level for one in answer.finalized_features}

    def _authenticate(self, sasl: Sasl) -> None:
        hello = self.ask(SaslHandshakeRequest(mechanism=sasl.mechanism), SaslHandshakeResponse)
        if hello.error_code:
            offered = ", ".join(hello.mechanisms) or "none"
            raise AuthenticationFailed(f"{self.address} does not offer {sasl.mechanism}, but: {offered}")
        exchange = exchange_of(sasl, lambda: secrets.token_urlsafe(24))
        said = next(exchange)
        while True:
            try:
                answer = self.ask(SaslAuthenticateRequest(auth_bytes=said), SaslAuthenticateResponse)
            except ConnectionLost as error:
                raise ConnectionLost(
                    f"{error}, when {sasl.username} logged in (some brokers do that at a wrong password)"
                ) from error
            if answer.error_code:
                why = answer.error_message or f"error {answer.error_code}"
                raise AuthenticationFailed(f"{self.address} refuses {sasl.username}: {why}")
            try:
                said = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                return
            except ValueError as error:
                raise AuthenticationFailed(f"{self.address} sent what is no SCRAM: {error}") from error

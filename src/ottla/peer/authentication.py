"""Authentication of this node to another one by SASL: SaslHandshake, then SaslAuthenticate until both sides accept.

Every step is a request of the exchange. A refusal raises SaslError where the response is received, or where work
ends that was run beside the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.base.promise import Promise
from ottla.security.sasl.exchange import SaslError, SaslFailed, Work
from ottla.security.sasl.login import Login
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.peer.exchange import Run

_HANDSHAKE_VERSIONS = range(1, 2)
"""Version 0 would be followed by bare tokens."""


class Send(Protocol):
    def __call__(
        self, message: Message, response: type[Message], versions: range | None, /
    ) -> Promise[Any]: ...


class PeerAuthentication:
    """One authentication. `on_complete` is called with the length of the session in milliseconds, 0 if unlimited."""

    def __init__(
        self, peer: str, host: str, login: Login, send: Send, run: Run, on_complete: Callable[[int], None]
    ) -> None:
        self._peer = peer
        self._login = login
        self._send = send
        self._run = run
        self._on_complete = on_complete
        self._exchange = login.new_exchange(host)
        self._session_ms = 0

    def start(self) -> None:
        request = SaslHandshakeRequest(mechanism=self._login.mechanism)
        self._send(request, SaslHandshakeResponse, _HANDSHAKE_VERSIONS).when_done(self._handshake_done)

    def _handshake_done(self, response: SaslHandshakeResponse | None, error: BaseException | None) -> None:
        if response is None:
            self._refused(error)
            return
        if response.error_code:
            offered = ", ".join(response.mechanisms) or "none"
            raise SaslFailed(f"{self._peer} does not offer {self._login.mechanism}, it offers: {offered}")
        self._continue(None)

    def _token_done(self, response: SaslAuthenticateResponse | None, error: BaseException | None) -> None:
        if response is None:
            self._refused(error)
            return
        if response.error_code:
            why = response.error_message or f"error {response.error_code}"
            raise SaslFailed(f"{self._peer} refused the credentials of this node: {why}")
        self._session_ms = response.session_lifetime_ms
        self._continue(bytes(response.auth_bytes))

    def _work_done(self, result: Any, error: BaseException | None) -> None:
        if error is not None:
            raise SaslFailed(f"no credentials for {self._peer}: {error}") from error
        self._continue(result)

    def _continue(self, result: Any) -> None:
        try:
            step = self._exchange.send(result)
        except StopIteration:
            self._on_complete(self._session_ms)
            return
        except SaslError as error:
            raise SaslFailed(f"{self._peer} is not authentic: {error}") from error
        if isinstance(step, Work):
            self._run(step, self._work_done)
        else:
            request = SaslAuthenticateRequest(auth_bytes=step)
            self._send(request, SaslAuthenticateResponse, None).when_done(self._token_done)

    def _refused(self, error: BaseException | None) -> None:
        """A request has failed: with the connection, which is reported already, or before it was sent."""
        from ottla.peer.errors import PeerError, Reason

        unsupported = (Reason.UNSUPPORTED_VERSION, Reason.NOT_SERVED)
        if isinstance(error, PeerError) and error.reason in unsupported:
            raise SaslFailed(str(error))

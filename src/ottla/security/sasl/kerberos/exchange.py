"""GSSAPI (RFC 4752): tokens of Kerberos establish a security context, then both sides agree on the security layer.

The server offers no security layer, as Kafka does; TLS protects the connection. A client that selects another layer is
refused. As in Kafka, the authorization id of the client is ignored, whatever it is: the user is always the one that the
ticket names. Some clients send the name of the service there. A client without mutual authentication gets the offer
as the response to its first token.

As in Kafka, the ticket does not limit the session, `connections.max.reauth.ms` does.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from ottla.base.executor import Executor
from ottla.base.promise import Promise
from ottla.security.sasl.exchange import ClientExchange, Identity, SaslFailed, SaslRefused, Work
from ottla.security.sasl.kerberos.context import Context, ContextFailed
from ottla.security.sasl.kerberos.short_names import NoShortName, ShortNames

NO_LAYER: Final = 1
_NO_LAYER_MESSAGE: Final = bytes((NO_LAYER, 0, 0, 0))
"""The layer, and the size of the largest wrapped message in three bytes: there are none."""


class _State(Enum):
    TOKENS = "tokens"
    OFFER = "offer"
    LAYER = "layer"
    ENDED = "ended"


class GssapiServer:
    """The server side. Tokens are processed in `executor`: a key table is read and a replay cache is written."""

    def __init__(self, new_context: Callable[[], Context], names: ShortNames, executor: Executor) -> None:
        self._new_context = new_context
        self._context: Context | None = None
        self._names = names
        self._executor = executor
        self._state = _State.TOKENS
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> Promise[bytes]:
        promise: Promise[bytes] = Promise()
        responses: list[bytes] = []

        def done(error: BaseException | None) -> None:
            if error is None:
                promise.keep(responses[0])
            else:
                promise.fail(error)

        self._executor.submit(lambda: responses.append(self._respond(message)), done)
        return promise

    def _respond(self, message: bytes) -> bytes:
        try:
            return self._next(message)
        except ContextFailed as failed:
            raise SaslRefused(str(failed), retriable=failed.retriable) from failed

    def _next(self, message: bytes) -> bytes:
        if self._context is None:
            self._context = self._new_context()
        state, self._state = self._state, _State.ENDED
        if state is _State.TOKENS:
            return self._token(self._context, message)
        if state is _State.OFFER and not message:
            return self._offer(self._context)
        if state is _State.LAYER:
            return self._agree(self._context, self._context.unwrap(message))
        raise SaslRefused("a message after the end of the exchange, or where an empty one is expected")

    def _token(self, context: Context, message: bytes) -> bytes:
        token = context.step(message)
        if not context.complete:
            self._state = _State.TOKENS
            return token or b""
        if not token:
            return self._offer(context)
        self._state = _State.OFFER
        return token

    def _offer(self, context: Context) -> bytes:
        self._state = _State.LAYER
        return context.wrap(_NO_LAYER_MESSAGE)

    def _agree(self, context: Context, message: bytes) -> bytes:
        if len(message) < len(_NO_LAYER_MESSAGE):
            raise SaslRefused(f"the choice of the security layer has {len(message)} bytes")
        if message[0] != NO_LAYER:
            raise SaslRefused(f"the client selects security layer {message[0]}, which is not offered")
        try:
            self.identity = Identity(self._names.name_of(context.initiator))
        except NoShortName as error:
            raise SaslRefused(str(error)) from error
        return b""


def gssapi_client(new_context: Callable[[], Context]) -> ClientExchange:
    """The client side. `new_context` requires mutual authentication: without a proof of the server it fails."""
    context: Context = yield Work(new_context)
    token: bytes | None = None
    while not context.complete:
        produced: bytes | None = yield Work(_step(context, token))
        # The last token of the server needs no response, but the offer of the server follows an empty message.
        token = yield produced or b""
    try:
        offer = context.unwrap(token or b"")
        if len(offer) != len(_NO_LAYER_MESSAGE) or not offer[0] & NO_LAYER:
            raise SaslFailed("the broker requires a security layer, which is not implemented; use TLS")
        choice = context.wrap(_NO_LAYER_MESSAGE)
    except ContextFailed as error:
        raise SaslFailed(str(error)) from error
    yield choice


def _step(context: Context, token: bytes | None) -> Callable[[], bytes | None]:
    return lambda: context.step(token)

"""Exchanges of SASL messages: what both sides of all mechanisms have in common.

The server side is an object: `respond` gets a message of the client and returns the response, or a promise of it if a
credential has to be fetched or derived first. When `identity` is set the client is authenticated. `respond` raises
`SaslRefused`, or fails its promise with it.

The client side is a generator: it yields a message to send and receives the response of the server, or it yields a
`Work` and receives its result. It returns when the server is authenticated too, as far as the mechanism does that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, Protocol

from ottla.base.errors import OttlaError
from ottla.base.promise import Promise

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""URLs that OAUTHBEARER may use: a system property in Kafka, a setting of the broker in Ottla."""


class Identity(NamedTuple):
    """The authenticated client."""

    name: str
    token_authenticated: bool = False
    """Whether the credential is a delegation token."""
    expires_ms: int | None = None
    """The time at which the credential expires, in milliseconds since 1970; None if it does not expire."""


class SaslError(OttlaError):
    """An exchange failed, or a message does not have the form of its mechanism."""


class SaslRefused(SaslError):
    """The client is not authenticated. The message of the exception is for the log and contains no secret.

    `shown` is sent to the client. If it is None the client gets one text for all causes, so that it cannot
    distinguish, for example, an unknown user from a wrong password. If `retriable` is set the client gets no response:
    the connection is closed, so that the client tries again.
    """

    def __init__(self, message: str, *, shown: str | None = None, retriable: bool = False) -> None:
        super().__init__(message)
        self.shown = shown
        self.retriable = retriable


class SaslFailed(SaslError):
    """The client side of an exchange failed: the server refused it, or the server is not authentic."""


class ServerExchange(Protocol):
    """The server side of one exchange."""

    identity: Identity | None

    def respond(self, message: bytes) -> bytes | Promise[bytes]:
        """Process a message of the client; return the response."""
        ...


class Work(NamedTuple):
    """Work of a client exchange that takes long or blocks. The owner runs it, beside an event loop if it has one."""

    run: Callable[[], Any]
    key: object = None
    """Works with equal keys have equal results, so that an owner can keep a result; None if they do not."""


ClientExchange = Generator[bytes | Work, Any, None]


def run_client(exchange: ClientExchange, send: Callable[[bytes], bytes]) -> None:
    """Run an exchange where blocking is allowed; `send` sends a message and returns the response."""
    try:
        step = next(exchange)
        while True:
            step = exchange.send(step.run() if isinstance(step, Work) else send(step))
    except StopIteration:
        return

"""PLAIN (RFC 4616): one message with authorization id, user and password, separated by NUL."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.security.sasl.exchange import ClientExchange, Identity, SaslRefused

_REFUSED = "Authentication failed: Invalid username or password"
_NO_PASSWORD = "\0"  # noqa: S105 - not a password
"""Compared with the password of an unknown user. No client can send it."""


class PlainServer:
    """The server side, with the passwords of the users."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes:
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError as error:
            raise _refused("Invalid SASL/PLAIN response: not UTF-8") from error
        if len(parts) != 3:
            raise _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        authorization_id, user, password = parts
        if not user:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        expected = self._passwords.get(user, _NO_PASSWORD)
        if not hmac.compare_digest(password.encode(), expected.encode()):
            raise _refused(_REFUSED)
        if authorization_id not in ("", user):
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(user)
        return b""


def plain_client(user: str, password: str) -> ClientExchange:
    """The client side."""
    yield f"\0{user}\0{password}".encode()


def _refused(text: str) -> SaslRefused:
    return SaslRefused(text, shown=text)

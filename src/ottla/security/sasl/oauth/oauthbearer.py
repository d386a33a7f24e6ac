"""The exchange of OAUTHBEARER (RFC 7628): one message with the token.

A server that refuses a token responds with JSON; the client sends one byte, and only then the authentication fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ottla.base.promise import Promise
from ottla.security.sasl.exchange import ClientExchange, Identity, SaslFailed, SaslRefused, Work
from ottla.security.sasl.oauth.jwks import KeySet
from ottla.security.sasl.oauth.jwt import AccessToken, Parsed, Rules, TokenRefused, candidates, parse, verify

_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^=,\x00\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?i:bearer) +([-_~+/.a-zA-Z0-9]+=*)")
_END: Final = b"\x01"
_REFUSED: Final = '{"status":"invalid_token"}'


class OauthServer:
    """The server side of one exchange. `find_keys` returns the key set for a key id."""

    def __init__(
        self,
        rules: Rules,
        find_keys: Callable[[str | None], Promise[KeySet]],
        now_ms: Callable[[], int],
        on_refused: Callable[[str], None],
    ) -> None:
        self._rules = rules
        self._find_keys = find_keys
        self._now_ms = now_ms
        self._on_refused = on_refused
        self._refused = False
        self._received = False
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes | Promise[bytes]:
        if self._refused:
            raise SaslRefused("the token was refused", shown=_REFUSED)
        if self._received:
            raise SaslRefused("a message after the token")
        self._received = True
        token, authorization_id = _parse_first(message)
        try:
            parsed = parse(token)
        except TokenRefused as refused:
            return self._refuse(refused)
        response: Promise[bytes] = Promise()

        def found(keys: KeySet | None, error: BaseException | None) -> None:
            if keys is None:
                response.fail(error or SaslRefused("no keys"))
                return
            try:
                response.keep(self._verify(parsed, keys, authorization_id))
            except SaslRefused as refused:
                response.fail(refused)

        self._find_keys(parsed.key_id).when_done(found)
        return response

    def _verify(self, parsed: Parsed, keys: KeySet, authorization_id: str) -> bytes:
        try:
            token: AccessToken = verify(parsed, candidates(parsed, keys), self._rules, self._now_ms() / 1000)
        except TokenRefused as refused:
            return self._refuse(refused)
        if authorization_id not in ("", token.subject):
            text = (
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
            raise SaslRefused(text, shown=text)
        self.identity = Identity(token.subject, expires_ms=token.expires_ms)
        return b""

    def _refuse(self, refused: TokenRefused) -> bytes:
        self._refused = True
        self._on_refused(str(refused))
        return _REFUSED.encode()


def oauth_client(fetch_token: Callable[[], str]) -> ClientExchange:
    """The client side; `fetch_token` may block."""
    token: Any = yield Work(fetch_token)
    response = yield b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    if response:
        yield _END
        raise SaslFailed("the broker refused the token")


def _parse_first(message: bytes) -> tuple[str, str]:
    try:
        match = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise SaslRefused("invalid first message of OAUTHBEARER")
    pairs = dict(pair.partition("=")[::2] for pair in match["pairs"].split("\x01")[:-1])
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None:
        raise SaslRefused("the first message of OAUTHBEARER has no bearer token")
    authorization_id = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return auth[1], authorization_id

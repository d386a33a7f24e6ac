"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): credentials and both sides of the exchange.

The server needs StoredKey and ServerKey only; it never derives keys from a password in an exchange. Channel binding is
not offered: the flags `n` and `y` are accepted, `p` is refused. As in Kafka, names and passwords are not normalized,
and the extension `tokenauth=true` of the first message means that the user is the id of a delegation token.

A client that does not send the right proof learns nothing: for an unknown user `find` returns a credential that no
proof matches, and the response is the same as for a wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.base.promise import Promise
from ottla.security.sasl.exchange import (
    ClientExchange,
    Identity,
    SaslFailed,
    SaslRefused,
    Work,
)
from ottla.security.scram_keys import ScramMechanism, derive_keys, salted_password

CLIENT_ITERATIONS_MAX: Final = 1_000_000
"""A server cannot occupy a client with more iterations."""
_CLIENT_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,\0]+))?,)(?P<bare>n=(?P<user>[^,\0]+),r=(?P<nonce>[!-+\--~]+)(?P<rest>(?:,.*)?))",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]=[^,\0]+)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_NAME = re.compile(r"(?:[^=]|=2C|=3D)+", re.DOTALL)
_MESSAGE_BYTES_MAX: Final = 4096


class Credential(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Found(NamedTuple):
    """The credential of a user; `identity` is None if the user does not exist and the credential matches nothing."""

    credential: Credential
    identity: Identity | None


Find = Callable[[str, bool], Found | Promise[Found]]
"""Find the credential of a user, or of a delegation token if the second argument is True."""


class _First(NamedTuple):
    """The state after the first message of a client."""

    bare: str
    gs2: str
    server_first: str
    nonce: str
    found: Found


class ScramServer:
    """The server side of one exchange."""

    def __init__(self, mechanism: ScramMechanism, find: Find, nonce: str) -> None:
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._first: _First | None = None
        self._complete = False
        self.identity: Identity | None = None

    def respond(self, message: bytes) -> bytes | Promise[bytes]:
        text = _text(message)
        if self._complete:
            raise SaslRefused("a SCRAM message after the last one")
        if self._first is None:
            return self._respond_to_first(text)
        self._complete = True
        return self._respond_to_final(self._first, text)

    def _respond_to_first(self, text: str) -> bytes | Promise[bytes]:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise SaslRefused("invalid first SCRAM message")
        user = _unescape(match["user"])
        if match["authzid"] is not None and _unescape(match["authzid"]) != user:
            shown = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            raise SaslRefused(shown, shown=shown)
        extensions = dict(part.partition("=")[::2] for part in match["rest"].split(",")[1:])
        found = self._find(user, extensions.get("tokenauth", "").lower() == "true")
        if not isinstance(found, Promise):
            return self._begin(match, found)
        response: Promise[bytes] = Promise()

        def done(value: Found | None, error: BaseException | None) -> None:
            if value is None:
                response.fail(error or SaslRefused("no credential"))
            else:
                response.keep(self._begin(match, value))

        found.when_done(done)
        return response

    def _begin(self, match: re.Match[str], found: Found) -> bytes:
        nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(found.credential.salt).decode()
        server_first = f"r={nonce},s={salt},i={found.credential.iterations}"
        self._first = _First(match["bare"], match["gs2"], server_first, nonce, found)
        return server_first.encode()

    def _respond_to_final(self, first: _First, text: str) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise SaslRefused("invalid final SCRAM message")
        if not hmac.compare_digest(match["nonce"].encode(), first.nonce.encode()):
            raise SaslRefused("the final SCRAM message has another nonce")
        if _decoded(match["binding"]) != first.gs2.encode():
            raise SaslRefused("the final SCRAM message has another channel binding header")
        digest, found = self._mechanism.digest, first.found
        signed = f"{first.bare},{first.server_first},{match['bare']}".encode()
        signature = hmac.digest(found.credential.stored_key, signed, digest)
        proof = _decoded(match["proof"])
        if len(proof) != len(signature):
            raise SaslRefused("the proof has a wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        matches = hmac.compare_digest(hashlib.new(digest, client_key).digest(), found.credential.stored_key)
        if not matches or found.identity is None:
            raise SaslRefused("wrong proof or unknown user")
        self.identity = found.identity
        verifier = hmac.digest(found.credential.server_key, signed, digest)
        return b"v=" + base64.b64encode(verifier)


def scram_client(
    mechanism: ScramMechanism, user: str, password: str, nonce: str, *, token: bool = False
) -> ClientExchange:
    """The client side; `token` if the user is the id of a delegation token and the password its HMAC."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}" + (",tokenauth=true" if token else "")
    server_first = _text((yield f"n,,{first_bare}".encode()))
    given = _attributes(server_first)
    if not given.get("r", "").startswith(nonce) or len(given["r"]) == len(nonce):
        raise SaslFailed("the response of the broker does not contain the nonce of the client")
    iterations = int(given["i"]) if re.fullmatch(r"[0-9]{1,9}", given.get("i", "")) else 0
    if not 0 < iterations <= CLIENT_ITERATIONS_MAX:
        raise SaslFailed(
            f"the broker requires {iterations} iterations, at most {CLIENT_ITERATIONS_MAX} are allowed"
        )
    salt, digest = _decoded(given.get("s", "")), mechanism.digest
    salted = yield Work(
        lambda: salted_password(mechanism, password, salt, iterations),
        key=(mechanism, user, password, salt, iterations),
    )
    final_bare = f"c=biws,r={given['r']}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    keys = derive_keys(mechanism, salted)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(keys.stored_key, signed, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    final = _attributes(_text((yield f"{final_bare},p={proof}".encode())))
    if "e" in final:
        raise SaslFailed(f"the broker refused the user: {final['e']}")
    expected = hmac.digest(keys.server_key, signed, digest)
    if not hmac.compare_digest(_decoded(final.get("v", "")), expected):
        raise SaslFailed("the broker did not prove that it has the credential of the user")


def _attributes(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _text(message: bytes) -> str:
    if len(message) > _MESSAGE_BYTES_MAX:
        raise SaslRefused(f"a SCRAM message of {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise SaslRefused("a SCRAM message is not UTF-8") from error


def _unescape(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise SaslRefused("invalid name in a SCRAM message")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SaslRefused("invalid base64 in a SCRAM message") from error

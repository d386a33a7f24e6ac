"""SASL of a client: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677). Pure.

An exchange is a generator: it yields the bytes to send, receives the bytes of the broker, and returns when
authentication is complete. SCRAM also authenticates the broker. At most `ITERATIONS_MAX` iterations are accepted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Generator

from ottla.client.raw.errors import AuthenticationFailed
from ottla.client.raw.settings import Sasl

ITERATIONS_MAX = 1_000_000
Exchange = Generator[bytes, bytes, None]


def exchange_of(sasl: Sasl, nonce: Callable[[], str]) -> Exchange:
    """The exchange of the configured mechanism."""
    if sasl.mechanism == "PLAIN":
        return _plain(sasl)
    return _scram(sasl, "sha256" if sasl.mechanism == "SCRAM-SHA-256" else "sha512", nonce())


def _plain(sasl: Sasl) -> Exchange:
    yield b"\0" + sasl.username.encode() + b"\0" + sasl.password.encode()


def _scram(sasl: Sasl, digest: str, nonce: str) -> Exchange:
    name = sasl.username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first_bare}".encode()).decode()
    attributes = _attributes(server_first)
    if not attributes.get("r", "").startswith(nonce) or len(attributes["r"]) == len(nonce):
        raise AuthenticationFailed("the response of the broker does not contain the nonce of the client")
    iterations = int(attributes.get("i", "0") or 0)
    if not 0 < iterations <= ITERATIONS_MAX:
        raise AuthenticationFailed(
            f"the broker requires {iterations} iterations, at most {ITERATIONS_MAX} are allowed"
        )
    salted = hashlib.pbkdf2_hmac(
        digest, sasl.password.encode(), base64.b64decode(attributes.get("s", "")), iterations
    )
    final_bare = f"c=biws,r={attributes['r']}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    signature = hmac.digest(stored_key, signed, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_final = _attributes((yield f"{final_bare},p={proof}".encode()).decode())
    if "e" in server_final:
        raise AuthenticationFailed(f"the broker rejected user {sasl.username}: {server_final['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(base64.b64decode(server_final.get("v", "")), expected):
        raise AuthenticationFailed("the broker did not prove that it knows the password")


def _attributes(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}

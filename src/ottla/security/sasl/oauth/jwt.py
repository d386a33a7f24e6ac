"""Verification of access tokens: JSON Web Tokens with a signature (RFC 7515, RFC 7519).

A token without a signature or with a symmetric one is refused, as are header extensions (`crit`). `exp` and `iat` are
required, and `iss` and `aud` if they are configured. As in Kafka, a token with an audience is refused if none is
expected.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from itertools import chain
from typing import Any, Final, NamedTuple

from ottla.base.errors import OttlaError
from ottla.security.sasl.oauth.jwks import KeySet, VerificationKey

_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_TOKEN_CHARS_MAX: Final = 256 * 1024
_CANDIDATES_MAX: Final = 8
_DIGESTS: Final = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}
_ALGORITHMS: Final = frozenset(kind + bits for kind in ("RS", "PS", "ES") for bits in _DIGESTS)
_COORDINATE_BYTES: Final = {"ES256": 32, "ES384": 48, "ES512": 66}


class TokenRefused(OttlaError):
    """The token is not valid. The message contains no part of the token."""


class Rules(NamedTuple):
    """What tokens must contain."""

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    clock_skew_s: int = 30


class Parsed(NamedTuple):
    """A token whose signature is not verified."""

    algorithm: str
    key_id: str | None
    signed: bytes
    claims: bytes
    signature: bytes


class AccessToken(NamedTuple):
    """A valid token."""

    subject: str
    expires_ms: int


def parse(token: str) -> Parsed:
    """Parse a token; TokenRefused if it does not have the form of one that can be valid."""
    match = _TOKEN.fullmatch(token) if len(token) <= _TOKEN_CHARS_MAX else None
    if match is None:
        raise TokenRefused("the token does not consist of header, claims and signature")
    header = _json(_decoded(match[1]))
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in _ALGORITHMS:
        raise TokenRefused("the algorithm of the token is not RS, PS or ES")
    if "crit" in header or "enc" in header or "zip" in header:
        raise TokenRefused("the header of the token has extensions that are not supported")
    if key_id is not None and not isinstance(key_id, str):
        raise TokenRefused("the key id of the token is not text")
    signed = f"{match[1]}.{match[2]}".encode()
    return Parsed(algorithm, key_id, signed, _decoded(match[2]), _decoded(match[3]))


def candidates(parsed: Parsed, keys: KeySet) -> list[VerificationKey]:
    """The keys that may have signed a token: those with its key id, or any if it has none. At most a few."""
    named = keys.get(parsed.key_id, ()) if parsed.key_id is not None else chain.from_iterable(keys.values())
    return [key for key in named if parsed.algorithm in key.algorithms][:_CANDIDATES_MAX]


def verify(parsed: Parsed, keys: list[VerificationKey], rules: Rules, now_s: float) -> AccessToken:
    """Verify the signature with any of `keys`, then the claims."""
    if not any(_is_signed(parsed, key) for key in keys):
        raise TokenRefused("no key verifies the signature of the token")
    claims = _json(parsed.claims)
    expires = _time(claims, "exp")
    if now_s - rules.clock_skew_s >= expires:
        raise TokenRefused("the token has expired")
    if _time(claims, "iat") > now_s + rules.clock_skew_s:
        raise TokenRefused("the token is issued in the future")
    if "nbf" in claims and _time(claims, "nbf") > now_s + rules.clock_skew_s:
        raise TokenRefused("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("the token has another issuer")
    _check_audience(claims, rules.audiences)
    _check_scope(claims.get(rules.scope_claim))
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenRefused(f"the token has no claim {rules.subject_claim}")
    return AccessToken(subject.strip(), int(expires * 1000))


def _check_audience(claims: dict[str, Any], expected: frozenset[str]) -> None:
    audience = claims.get("aud", [])
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise TokenRefused("the audience of the token is not text")
    if not named and not expected:
        return
    if not expected & set(named):
        raise TokenRefused("the token has another audience")


def _check_scope(scope: Any) -> None:
    scopes = scope if isinstance(scope, list) else []
    if not all(isinstance(each, str) and each.strip() for each in scopes) or len(set(scopes)) != len(scopes):
        raise TokenRefused("the scope of the token is not a list of distinct texts")


def _is_signed(parsed: Parsed, key: VerificationKey) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    algorithm, signature = parsed.algorithm, parsed.signature
    digest: hashes.HashAlgorithm = getattr(hashes, _DIGESTS[algorithm[2:]])()
    try:
        if isinstance(key.key, rsa.RSAPublicKey):
            pad = (
                padding.PKCS1v15()
                if algorithm.startswith("RS")
                else padding.PSS(padding.MGF1(digest), digest.digest_size)
            )
            key.key.verify(signature, parsed.signed, pad, digest)
        else:
            key.key.verify(_der(signature, _COORDINATE_BYTES[algorithm]), parsed.signed, ec.ECDSA(digest))
    except (InvalidSignature, ValueError):
        return False
    return True


def _der(signature: bytes, size: int) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if len(signature) != 2 * size:
        raise ValueError("wrong length of a signature")
    return encode_dss_signature(
        int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
    )


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise TokenRefused(f"the token has no time {name}")
    return float(value)


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise TokenRefused("a part of the token is not JSON") from error
    if not isinstance(value, dict):
        raise TokenRefused("a part of the token is not a JSON object")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name occurs twice")
    return made


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise TokenRefused("a part of the token is not base64") from error

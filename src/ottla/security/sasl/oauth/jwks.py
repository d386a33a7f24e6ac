"""Keys that verify tokens, from a JSON Web Key Set (RFC 7517).

Each key verifies the algorithms of its type only: RSA keys RS and PS, elliptic curves the one ES algorithm of their
curve. A public key is therefore never used as the secret of an HMAC. Keys of other types, keys for encryption and weak
RSA keys are ignored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

_RSA_BITS_MIN: Final = 2048
_RSA_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {
    "P-256": ("SECP256R1", "ES256"),
    "P-384": ("SECP384R1", "ES384"),
    "P-521": ("SECP521R1", "ES512"),
}
_KEYS_MAX: Final = 1000


class VerificationKey(NamedTuple):
    """A public key and the algorithms for which it may be used."""

    key: RSAPublicKey | EllipticCurvePublicKey
    algorithms: frozenset[str]


KeySet = Mapping[str | None, Sequence[VerificationKey]]
"""Keys by their ids."""


def parse_jwks(text: str | bytes) -> KeySet:
    """Parse a key set; ValueError if it is not one."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("the key set is not JSON") from error
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the key set has no array keys")  # noqa: TRY004 - a bad document, not a bad argument
    found: dict[str | None, list[VerificationKey]] = {}
    for entry in entries[:_KEYS_MAX]:
        key = _parse_key(entry) if isinstance(entry, dict) else None
        if key is not None:
            key_id = entry.get("kid")
            found.setdefault(key_id if isinstance(key_id, str) else None, []).append(key)
    return found


def _parse_key(entry: dict[str, Any]) -> VerificationKey | None:
    operations = entry.get("key_ops")
    if entry.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        return None
    try:
        made = {"RSA": _rsa, "EC": _elliptic}.get(entry.get("kty", ""), _other)(entry)
    except (KeyError, TypeError, ValueError):
        return None
    if made is None:
        return None
    algorithms = made.algorithms
    if "alg" in entry:
        algorithms = algorithms & {entry["alg"]}
    return VerificationKey(made.key, algorithms) if algorithms else None


def _rsa(entry: dict[str, Any]) -> VerificationKey | None:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    key = RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()
    return VerificationKey(key, _RSA_ALGORITHMS) if key.key_size >= _RSA_BITS_MIN else None


def _elliptic(entry: dict[str, Any]) -> VerificationKey | None:
    from cryptography.hazmat.primitives.asymmetric import ec

    curve, algorithm = _CURVES[entry["crv"]]
    numbers = ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), getattr(ec, curve)())
    return VerificationKey(numbers.public_key(), frozenset({algorithm}))


def _other(entry: dict[str, Any]) -> None:
    """Keys of other types, among them symmetric ones, verify nothing."""


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")

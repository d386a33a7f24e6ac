"""Delegation tokens (KIP-48): their secret, and how a token is found by it.

The secret of a token is the HMAC-SHA512 of its id, with the key `delegation.token.secret.key`, which is the same on all
nodes. It is never stored: each node computes it from the id, which is in the metadata. A client logs in by SCRAM with
the id as its name and the secret, in base64, as its password.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from ottla.metadata.records import DelegationTokenRecord

SECRET_KEY: Final = "delegation.token.secret.key"  # noqa: S105 - the name of a setting
_SURPLUS_MAX: Final = 1000


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret of a token."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def belongs_to(token: DelegationTokenRecord, principal: str) -> bool:
    """Whether a principal, in the form `Type:name`, owns, has requested or may renew a token."""
    return principal in (token.owner, token.requester) or principal in token.renewers


class TokenIndex:
    """The tokens of an image by their secrets."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._ids: dict[bytes, str] = {}
        self._known: set[str] = set()

    def find(
        self, tokens: Mapping[str, DelegationTokenRecord], secret: bytes
    ) -> DelegationTokenRecord | None:
        """The token with this secret; None if there is none."""
        if len(self._known) > len(tokens) + _SURPLUS_MAX:
            self._ids.clear()
            self._known.clear()
        for token_id in tokens.keys() - self._known:
            self._ids[token_hmac(self._secret, token_id)] = token_id
            self._known.add(token_id)
        return tokens.get(self._ids.get(secret, ""))

"""Keys of SCRAM users (RFC 5802): what the cluster stores of a password, and how it is derived.

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)
    server key      = HMAC(salted password, "Server Key")

Only the stored key and the server key are stored. Both verify a client, and neither is enough to log in.
`salted_password` takes milliseconds: call it in an executor, not on the event loop.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, numbered as in the APIs and the metadata."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism:
        return cls.UNKNOWN

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SASL, for example SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The hash function, by its name in `hashlib`."""
        return "sha512" if self is ScramMechanism.SCRAM_SHA_512 else "sha256"


MECHANISMS: Final = {each.sasl_name: each for each in ScramMechanism if each}
"""The mechanisms by their names in SASL."""


class ScramKeys(NamedTuple):
    """What is stored of a salted password."""

    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password of a user; slow by design."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def derive_keys(mechanism: ScramMechanism, salted: bytes) -> ScramKeys:
    """The keys of a salted password."""
    digest = mechanism.digest
    client_key = hmac.digest(salted, b"Client Key", digest)
    return ScramKeys(hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest))

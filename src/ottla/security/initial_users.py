"""SCRAM users of a new cluster, in the form of the option `--add-scram` (KIP-900).

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=bob,iterations=8192,salt="<base64>",saltedpassword="<base64>"]

Messages about a bad text name the part that is wrong and never its value.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Final

from ottla.base.errors import LocalError
from ottla.metadata.records import UserScramCredentialRecord
from ottla.security.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    derive_keys,
    salted_password,
)

_SALT_BYTES: Final = 32
_PARTS: Final = frozenset({"name", "password", "salt", "iterations", "saltedpassword"})


def parse_users(
    texts: Iterable[str], random_bytes: Callable[[int], bytes]
) -> list[UserScramCredentialRecord]:
    """The credential of each text; LocalError if one is not valid."""
    return [_parse(text.strip(), random_bytes) for text in texts]


def user_lines(text: str) -> list[str]:
    """The texts of a file: one in each line; empty lines and lines that start with # are ignored."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _parse(text: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    name, equals, rest = text.partition("=")
    if not equals or not rest.startswith("[") or not rest.endswith("]"):
        raise _refused("expected MECHANISM=[name=...,password=...]")
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise _refused(f"unknown mechanism; allowed: {', '.join(MECHANISMS)}")
    parts = _parts(rest[1:-1])
    user = parts.get("name", "")
    if not user:
        raise _refused("the name is missing")
    salt = _decoded(parts, "salt") if "salt" in parts else random_bytes(_SALT_BYTES)
    iterations = _iterations(parts.get("iterations", str(ITERATIONS_MIN)))
    if "password" in parts:
        salted = salted_password(mechanism, parts["password"], salt, iterations)
    elif "saltedpassword" not in parts:
        raise _refused("password or saltedpassword is missing")
    elif "salt" not in parts:
        raise _refused("saltedpassword needs salt")
    else:
        salted = _decoded(parts, "saltedpassword")
    keys = derive_keys(mechanism, salted)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in _PARTS:
            raise _refused(f"each part is KEY=VALUE, with one of the keys {', '.join(sorted(_PARTS))}")
        is_quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
        parts[key] = value[1:-1] if is_quoted else value
    return parts


def _decoded(parts: dict[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(parts[key], validate=True)
    except (binascii.Error, ValueError):
        raise _refused(f"{key} is not valid base64") from None


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX:
        raise _refused(f"iterations; allowed: {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _refused(reason: str) -> LocalError:
    return LocalError(f"--add-scram: {reason}")

"""Brokers with SASL: their settings, and clients that follow or break the order of the authentication."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count

from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.raw import Address, Closed, RawClient
from tests.support.tokens import AUDIENCE, ISSUER

MODULES = "org.apache.kafka.common.security"
USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
"""The users of PLAIN."""


def plain_jaas(users: Mapping[str, str] = USERS, own: str | None = "admin") -> str:
    login = f' username="{own}" password="{users[own]}"' if own is not None else ""
    table = "".join(f' user_{name}="{password}"' for name, password in users.items())
    return f"{MODULES}.plain.PlainLoginModule required{login}{table};"


def scram_jaas(user: str, password: str, more: str = "") -> str:
    return f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{password}"{more};'


def scram_users(users: Mapping[str, str] = USERS) -> list[str]:
    """The arguments of a broker that create these users of both SCRAM mechanisms."""
    arguments: list[str] = []
    for name, password in users.items():
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            arguments += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
    return arguments


def oauth_settings(jwks_url: str) -> dict[str, str]:
    """The settings with which a listener accepts the tokens of `tests.support.tokens`."""
    return {
        "sasl.oauthbearer.jwks.endpoint.url": jwks_url,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": jwks_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def sasl_settings(port: int, mechanisms: str = "PLAIN", **more: str) -> dict[str, str]:
    """The settings of one node whose listener for clients uses SASL_PLAINTEXT; `more` has `_` in place of `.`."""
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": mechanisms,
        "sasl.mechanism.inter.broker.protocol": mechanisms.split(",", maxsplit=1)[0],
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_jaas(),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": scram_jaas("node", "node-secret"),
    }
    return settings | {name.replace("_", "."): value for name, value in more.items()}


class SaslClient(RawClient):
    """A connection that authenticates step by step.

    Each has another address on loopback, because the delay of failures depends on the failures of an address. With
    `source` it has that address.
    """

    _numbers = count()

    def __init__(self, bootstrap: str, source: str = "") -> None:
        number = os.getpid() * 64 + next(self._numbers)
        own = f"127.{number >> 16 & 127 | 64}.{number >> 8 & 255}.{number & 255}"
        super().__init__(Address.parse(bootstrap), source or own)

    def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse | Closed:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)

    def token(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse | Closed:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version, SaslAuthenticateResponse)

    def login(self, user: str = "alice", password: str | None = None) -> SaslAuthenticateResponse | Closed:
        """Authenticate with PLAIN."""
        self.handshake("PLAIN")
        return self.token(f"\0{user}\0{password or USERS[user]}".encode())

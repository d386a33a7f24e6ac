"""TLS settings of a listener or a client, from Kafka's `ssl.*` settings. Values: equal settings are interchangeable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.base.errors import LocalError
from ottla.security.tls.stores import StoreSource

Lookup = Callable[[str], str | None]
"""The text of a setting by its name; None if it is not set."""

PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_INSECURE: Final = ("TLSv1", "TLSv1.1")
"""Versions that are not used although they are listed, as in a JVM with its default settings."""
DEFAULT_RULES: Final = "DEFAULT"


class ClientAuth(Enum):
    """Whether clients present a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True)
class TlsSettings:
    """Settings of one side. `client_auth` and `mapping_rules` apply to servers, `check_*` to clients."""

    keystore: StoreSource
    truststore: StoreSource
    protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    client_auth: ClientAuth = ClientAuth.NONE
    mapping_rules: str = DEFAULT_RULES
    check_host: bool = True
    check_certificate: bool = True


def read_settings(lookup: Lookup) -> TlsSettings:
    """Read Kafka's settings; LocalError if a value is not allowed."""
    return TlsSettings(
        keystore=StoreSource(
            "ssl.keystore.location" if lookup("ssl.keystore.location") else "ssl.keystore.key",
            location=lookup("ssl.keystore.location") or None,
            password=lookup("ssl.keystore.password"),
            key_password=lookup("ssl.key.password"),
            text=lookup("ssl.keystore.certificate.chain"),
            key_text=lookup("ssl.keystore.key"),
        ),
        truststore=StoreSource(
            "ssl.truststore.location" if lookup("ssl.truststore.location") else "ssl.truststore.certificates",
            location=lookup("ssl.truststore.location") or None,
            password=lookup("ssl.truststore.password"),
            text=lookup("ssl.truststore.certificates"),
        ),
        protocols=_protocols(_split(lookup("ssl.enabled.protocols"))),
        cipher_suites=_split(lookup("ssl.cipher.suites")),
        client_auth=_client_auth(lookup("ssl.client.auth")),
        mapping_rules=lookup("ssl.principal.mapping.rules") or DEFAULT_RULES,
        check_host=_checks_host(lookup("ssl.endpoint.identification.algorithm")),
    )


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in (text or "").split(","))))


def _protocols(names: tuple[str, ...]) -> tuple[str, ...]:
    used = tuple(name for name in names if name not in _INSECURE)
    for name in used or names:
        if name not in PROTOCOLS:
            raise LocalError(f"ssl.enabled.protocols: {name}; allowed: {', '.join(PROTOCOLS)}")
    return used or PROTOCOLS


def _client_auth(text: str | None) -> ClientAuth:
    try:
        return ClientAuth((text or "none").strip().lower())
    except ValueError as error:
        raise LocalError(f"ssl.client.auth={text!r}; allowed: required, requested, none") from error


def _checks_host(text: str | None) -> bool:
    """Whether the host name is verified: as in Kafka the default is https, and an empty text disables it."""
    algorithm = "https" if text is None else text.strip().lower()
    if algorithm not in ("", "none", "https"):
        raise LocalError(f"ssl.endpoint.identification.algorithm={text!r}; allowed: https, or empty")
    return algorithm == "https"

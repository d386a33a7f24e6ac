"""TLS settings of a client, by the names of librdkafka or Java, and the context that they result in.

TLS 1.2 or newer; certificate and host name are verified unless disabled. Stores are read in PEM, PKCS12 and JKS format.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from ottla.security.tls.endpoints import load_client
from ottla.security.tls.settings import TlsSettings, read_settings
from ottla.security.tls.stores import StoreSource

_SYSTEM = "probe"
"""librdkafka's name for the certificates of the system."""


def read_tls(text: Callable[..., str | None], *, check_certificate: bool) -> TlsSettings:
    """Read the settings; `text` returns the value of the first of its names that is set."""
    authorities = text("ssl.ca.location", "ssl.truststore.location")
    certificate = text("ssl.certificate.location", "ssl.keystore.location")
    keystore = StoreSource(
        "ssl.certificate.location" if text("ssl.certificate.location") else "ssl.keystore.location",
        location=certificate,
        key_location=text("ssl.key.location"),
        password=text("ssl.keystore.password"),
        key_password=text("ssl.key.password"),
        text=text("ssl.certificate.pem", "ssl.keystore.certificate.chain"),
        key_text=text("ssl.key.pem", "ssl.keystore.key"),
    )
    truststore = StoreSource(
        "ssl.ca.location" if text("ssl.ca.location") else "ssl.truststore.location",
        location=None if authorities == _SYSTEM else authorities,
        password=text("ssl.truststore.password"),
        text=text("ssl.ca.pem", "ssl.truststore.certificates"),
    )
    general = read_settings(text)
    return TlsSettings(
        keystore=keystore,
        truststore=truststore,
        protocols=general.protocols,
        cipher_suites=general.cipher_suites,
        check_host=general.check_host,
        check_certificate=check_certificate,
    )


def context_of(settings: TlsSettings) -> ssl.SSLContext:
    """Create the TLS context. Raise LocalError if a file cannot be used."""
    return load_client(settings).context

"""TLS settings of the raw client by the names of librdkafka and of Java."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.client.raw.settings import ClientSettings
from ottla.client.raw.tls import context_of
from ottla.security.tls.settings import ClientAuth
from ottla.security.tls.stream import TlsStream
from tests.support.certificates import Authority
from tests.support.tls import connect, server_of

AUTHORITY = Authority()
OWN = AUTHORITY.issue("client")
PHRASE = "open sesame"


def context(**options: str) -> ssl.SSLContext:
    given = {name.replace("_", "."): value for name, value in options.items()}
    base = {"bootstrap.servers": "localhost:1", "security.protocol": "SSL"}
    settings = ClientSettings.from_options({**base, **given})
    assert settings.tls is not None
    return context_of(settings.tls)


def connects(made: ssl.SSLContext) -> None:
    """The client is accepted by a server that requires a certificate."""
    server = server_of(AUTHORITY.issue("server"), AUTHORITY, client_auth=ClientAuth.REQUIRED)
    connect(TlsStream(made, server_side=False, host="localhost"), server.new_stream())


def test_names_of_librdkafka(tmp_path: Path) -> None:
    ca = str(AUTHORITY.write_pem(tmp_path / "ca.pem"))
    (tmp_path / "key.pem").write_text(OWN.key_pem(PHRASE))
    (tmp_path / "certificate.pem").write_text(OWN.certificate_pem)
    files = {
        "ssl_certificate_location": str(tmp_path / "certificate.pem"),
        "ssl_key_location": str(tmp_path / "key.pem"),
    }
    connects(context(ssl_ca_location=ca, **files, ssl_key_password=PHRASE))
    texts = {"ssl_certificate_pem": OWN.certificate_pem, "ssl_key_pem": OWN.key_pem()}
    connects(context(ssl_ca_pem=AUTHORITY.pem, **texts))
    store = str(OWN.write_pkcs12(tmp_path / "own.p12", PHRASE))
    connects(context(ssl_ca_location=ca, ssl_keystore_location=store, ssl_keystore_password=PHRASE))


def test_names_of_java(tmp_path: Path) -> None:
    ca = str(AUTHORITY.write_pem(tmp_path / "ca.pem"))
    connects(
        context(
            ssl_truststore_location=ca,
            ssl_truststore_type="PEM",
            ssl_keystore_location=str(OWN.write_pem(tmp_path / "own.pem")),
        )
    )
    connects(
        context(
            ssl_truststore_certificates=AUTHORITY.pem,
            ssl_keystore_certificate_chain=OWN.certificate_pem,
            ssl_keystore_key=OWN.key_pem(),
        )
    )


def test_verification() -> None:
    checked = context(ssl_ca_location="probe")
    assert checked.verify_mode is ssl.CERT_REQUIRED
    assert checked.check_hostname
    unchecked = context(enable_ssl_certificate_verification="false")
    assert unchecked.verify_mode is ssl.CERT_NONE
    assert not unchecked.check_hostname
    assert not context(ssl_endpoint_identification_algorithm="").check_hostname


def test_a_missing_file_is_named() -> None:
    with pytest.raises(LocalError, match=r"ssl\.ca\.location: cannot read /absent"):
        context(ssl_ca_location="/absent")
    with pytest.raises(LocalError, match=r"ssl\.keystore\.location: cannot read /absent"):
        context(ssl_keystore_location="/absent")

"""TLS settings by Kafka's names."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.security.tls.settings import ClientAuth, TlsSettings, read_settings

PHRASE = "open sesame"


def read(**texts: str) -> TlsSettings:
    return read_settings({f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()}.get)


def test_defaults_are_kafkas() -> None:
    found = read()
    assert found.protocols == ("TLSv1.2", "TLSv1.3")
    assert found.client_auth is ClientAuth.NONE
    assert found.check_host
    assert not found.keystore.given
    assert not found.truststore.given


def test_values() -> None:
    found = read(
        enabled_protocols="TLSv1.3",
        cipher_suites="A, B",
        client_auth="required",
        endpoint_identification_algorithm="",
        keystore_location="/k",
        truststore_certificates="text",
        principal_mapping_rules="RULE:a/b/",
    )
    assert found.protocols == ("TLSv1.3",)
    assert found.cipher_suites == ("A", "B")
    assert found.client_auth is ClientAuth.REQUIRED
    assert not found.check_host
    assert found.keystore.setting == "ssl.keystore.location"
    assert found.truststore.setting == "ssl.truststore.certificates"
    assert found.mapping_rules == "RULE:a/b/"


def test_old_versions_are_not_used_beside_others() -> None:
    assert read(enabled_protocols="TLSv1.2,TLSv1.1,TLSv1").protocols == ("TLSv1.2",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("enabled_protocols", "TLSv1.1"),
        ("enabled_protocols", "TLSv1.1,TLSv1"),
        ("enabled_protocols", "TLSv1.2,SSLv3"),
        ("client_auth", "maybe"),
        ("endpoint_identification_algorithm", "ldaps"),
    ],
)
def test_other_values_are_refused(name: str, text: str) -> None:
    with pytest.raises(LocalError, match=name.replace("_", ".")):
        read(**{name: text})


def test_secrets_are_not_part_of_the_text() -> None:
    names = ["keystore_password", "key_password", "keystore_key", "truststore_password"]
    names += ["keystore_certificate_chain", "truststore_certificates"]
    found = read(**dict.fromkeys(names, PHRASE))
    assert found.keystore.password == PHRASE
    assert PHRASE not in repr(found)

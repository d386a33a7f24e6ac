"""Options in both spellings, and error messages for invalid values."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.client.raw.settings import ClientSettings, Sasl
from ottla.records.compression import Codec

SERVER = {"bootstrap.servers": "a:1"}
HIDDEN = "hidden"


def made(**options: object) -> ClientSettings:
    return ClientSettings.from_options(
        SERVER | {name.replace("_", "."): value for name, value in options.items()}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b ,", (("a", 1), ("b", 9092))),
        ("PLAINTEXT://a:1", (("a", 1),)),
        ("[::1]:7,10.0.0.1:8", (("::1", 7), ("10.0.0.1", 8))),
    ],
)
def test_servers(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert ClientSettings.from_options({"bootstrap.servers": text}).bootstrap == expected


@pytest.mark.parametrize("text", ["", " , ", "a:b", "a:99999", "a:1:2"])
def test_invalid_servers_are_rejected(text: str) -> None:
    with pytest.raises(LocalError, match=r"bootstrap\.servers"):
        ClientSettings.from_options({"bootstrap.servers": text})


def test_names_of_java_and_of_librdkafka_mean_the_same() -> None:
    java = made(
        max_partition_fetch_bytes=7, fetch_max_wait_ms="8", compression_type="zstd", max_request_size=9
    )
    librdkafka = made(
        fetch_message_max_bytes=7, fetch_wait_max_ms="8", compression_codec="zstd", message_max_bytes=9
    )
    assert java == librdkafka
    assert (java.partition_fetch_bytes, java.fetch_max_wait_ms, java.codec) == (7, 8, Codec.ZSTD)


def test_names_are_not_case_sensitive_and_unknown_ones_are_ignored() -> None:
    settings = ClientSettings.from_options(
        {"Bootstrap.Servers": "a:1", "Isolation.Level": "read_committed", "metrics.recording.level": "INFO"}
    )
    assert settings.read_committed


@pytest.mark.parametrize(
    "jaas",
    [
        'o.a.PlainLoginModule required username="al ice" password="a\\"b;=c";',
        "o.a.PlainLoginModule required\n password='a\"b;=c'  username='al ice' ;",
    ],
)
def test_jaas(jaas: str) -> None:
    settings = made(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas)
    assert settings.sasl == Sasl("PLAIN", "al ice", 'a"b;=c')


def test_secrets_are_not_part_of_the_text_form() -> None:
    settings = made(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="alice",
        sasl_password=HIDDEN,
        ssl_key_password=HIDDEN,
        ssl_key_pem=HIDDEN,
    )
    assert settings.sasl is not None
    assert settings.sasl.password == HIDDEN
    assert HIDDEN not in repr(settings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, r"sasl\.username"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "x.jks"}, "PEM"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "x", "ssl.keystore.type": "PKCS12"}, "PEM"),
        ({"isolation.level": "serializable"}, "read_committed"),
        ({"compression.type": "brotli"}, "zstd"),
        ({"request.timeout.ms": "soon"}, "whole number"),
        ({"fetch.min.bytes": "-1"}, "at least 0"),
        ({"check.crcs": "maybe"}, "true or false"),
    ],
)
def test_invalid_values_are_rejected(options: dict[str, str], said: str) -> None:
    with pytest.raises(LocalError, match=said):
        ClientSettings.from_options(SERVER | options)


@pytest.mark.parametrize(("text", "checks"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_host_check(text: str, checks: bool) -> None:
    tls = made(security_protocol="SSL", ssl_endpoint_identification_algorithm=text).tls
    assert tls is not None
    assert tls.check_host is checks


def test_equal_settings_are_one_key() -> None:
    assert len({made(client_id="x"), made(client_id="x"), made(client_id="y")}) == 2

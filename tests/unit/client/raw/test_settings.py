"""Options in both spellings, and error messages for invalid values."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.client.raw.settings import ClientSettings, Sasl
from ottla.records.compression import Codec
from ottla.security.sasl.oauth.endpoints import TokenEndpoint

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
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="al ice" password="a\\"b;=c";',
        "org.apache.kafka.common.security.plain.PlainLoginModule required\n password='a\"b;=c'  username='al ice' ;",
    ],
)
def test_jaas(jaas: str) -> None:
    settings = made(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas)
    assert settings.sasl == Sasl("PLAIN", "al ice", 'a"b;=c')


def test_jaas_with_a_delegation_token() -> None:
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required username=id password=hmac tokenauth=true;"
    settings = made(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    assert settings.sasl == Sasl("SCRAM-SHA-256", "id", "hmac", delegation_token=True)


@pytest.mark.parametrize("prefix", ["sasl.oauthbearer.client", "sasl.oauthbearer.client.credentials.client"])
def test_oauthbearer(prefix: str) -> None:
    settings = ClientSettings.from_options(
        {
            **SERVER,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
            "sasl.oauthbearer.scope": "kafka",
            f"{prefix}.id": "app",
            f"{prefix}.secret": HIDDEN,
        }
    )
    assert settings.sasl is not None
    assert settings.sasl.tokens == TokenEndpoint("https://issuer.example/token", "app", HIDDEN, "kafka")
    assert HIDDEN not in repr(settings)
    assert hash(settings)


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
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "CRAM-MD5"}, "SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, r"sasl\.kerberos\.service\.name"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.keytab": "/etc/client.keytab",
            },
            "keyTab and principal",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, r"sasl\.username"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, r"token\.endpoint\.url"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "ftp://a/b",
            },
            "https:",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x y z;"},
            r"sasl\.jaas\.config",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, r"TLSv1\.2"),
        ({"security.protocol": "SSL", "ssl.ca.location": ""}, r"ssl\.ca\.location is empty"),
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

"""Contexts: versions, cipher suites, keys, trust."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.security.tls.endpoints import load_client, load_server
from ottla.security.tls.settings import ClientAuth, TlsSettings
from ottla.security.tls.stores import StoreSource
from tests.support.certificates import Authority
from tests.support.tls import client_of, connect, server_of, settings_of

AUTHORITY = Authority()
OWN = AUTHORITY.issue("server")
ALL_OF_13 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def suites(*names: str) -> ssl.SSLContext:
    return load_server(settings_of(OWN, None, cipher_suites=names)).context


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_names_of_java_and_openssl(java: str, openssl: str) -> None:
    context = suites(java)
    older = [each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")]
    assert older == [openssl]
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2, "no suite of TLS 1.3 is named"


def test_suites_of_tls_13() -> None:
    assert suites(*ALL_OF_13).minimum_version == ssl.TLSVersion.TLSv1_3
    both = suites(*ALL_OF_13, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(LocalError, match=r"ssl\.cipher\.suites: of TLS 1\.3 name all of"):
        suites(ALL_OF_13[0])
    with pytest.raises(LocalError, match="OpenSSL has none of"):
        suites("TLS_UNKNOWN_WITH_NOTHING")
    with pytest.raises(LocalError, match="none of the suites belongs to a version"):
        load_server(settings_of(OWN, None, protocols=("TLSv1.2",), cipher_suites=ALL_OF_13))


def test_versions_without_one_in_common_do_not_connect() -> None:
    client = client_of(AUTHORITY, protocols=("TLSv1.2",)).new_stream("localhost")
    with pytest.raises(ssl.SSLError):
        connect(client, server_of(OWN, protocols=("TLSv1.3",)).new_stream())


def test_a_certificate_that_is_no_authority_can_be_trusted() -> None:
    trusting = TlsSettings(
        StoreSource("ssl.keystore.key"), StoreSource("ssl.truststore.certificates", text=OWN.certificate_pem)
    )
    client = load_client(trusting)
    stream = client.context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
    assert stream.context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


def test_the_host_name_is_verified_unless_disabled() -> None:
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        connect(client_of(AUTHORITY).new_stream("elsewhere.example"), server_of(OWN).new_stream())
    connect(
        client_of(AUTHORITY, check_host=False).new_stream("elsewhere.example"), server_of(OWN).new_stream()
    )
    connect(client_of(AUTHORITY).new_stream("127.0.0.1"), server_of(OWN).new_stream())


@pytest.mark.parametrize(("auth", "accepted"), [("none", True), ("requested", True), ("required", False)])
def test_clients_without_a_certificate(auth: str, accepted: bool) -> None:
    server = server_of(OWN, AUTHORITY, client_auth=ClientAuth(auth))
    client, stream = client_of(AUTHORITY).new_stream("localhost"), server.new_stream()
    if accepted:
        connect(client, stream)
        assert stream.peer_certificate() is None
    else:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            connect(client, stream)


def test_errors_name_the_cause(tmp_path: Path) -> None:
    other = AUTHORITY.issue("other")
    mixed = StoreSource("ssl.keystore.key", text=OWN.certificate_pem, key_text=other.key_pem())
    with pytest.raises(LocalError, match="the private key does not belong to the certificate"):
        load_server(TlsSettings(mixed, StoreSource("t")))
    phrase = "open sesame"
    path = str(OWN.write_pem(tmp_path / "own.pem", phrase))
    encrypted = StoreSource("ssl.keystore.location", path, key_password="wrong " + phrase)
    with pytest.raises(LocalError, match=r"is ssl\.key\.password right\?"):
        load_server(TlsSettings(encrypted, StoreSource("t")))
    malformed = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    with pytest.raises(LocalError, match="a certificate is malformed"):
        load_client(TlsSettings(StoreSource("k"), StoreSource("ssl.truststore.certificates", text=malformed)))


def test_keys_are_not_written_to_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    original = ssl.SSLContext.load_cert_chain

    def load(self: ssl.SSLContext, path: str, *more: object, **named: object) -> None:
        loaded.append(str(Path(path).readlink()))
        original(self, path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    server_of(OWN)
    assert loaded == ["/memfd:ottla (deleted)"]
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors

"""Key stores and trust stores in each format, and the errors of each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from ottla.base.errors import LocalError
from ottla.security.tls.stores import KeyEntry, StoreSource, load_key_entry, load_trusted
from tests.support.certificates import Authority, Issued

PHRASE = "open sesame"
needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="needs keytool")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("own")


def key_of(path: Path, password: str | None = None, key_password: str | None = None) -> KeyEntry:
    source = StoreSource("ssl.keystore.location", str(path), password, key_password)
    return load_key_entry(source, source.read())


def trusted_of(path: Path, password: str | None = None) -> list[bytes]:
    source = StoreSource("ssl.truststore.location", str(path), password)
    return list(load_trusted(source, source.read()))


def keytool(*arguments: object) -> None:
    subprocess.run(["keytool", *map(str, arguments), "-noprompt"], check=True, capture_output=True)


def test_pem_file(tmp_path: Path, authority: Authority, issued: Issued) -> None:
    path = issued.write_pem(tmp_path / "own.any")
    path.write_text(path.read_text() + authority.pem)
    found = key_of(path)
    assert found.chain == (issued.der, authority.certificate.public_bytes(Encoding.DER))
    assert found.pem == issued.key_pem() + issued.certificate_pem + authority.pem
    assert trusted_of(authority.write_pem(tmp_path / "ca")) == [
        authority.certificate.public_bytes(Encoding.DER)
    ]


def test_pem_text_on_one_line(issued: Issued) -> None:
    text = issued.certificate_pem.replace("\n", " ")
    source = StoreSource("ssl.keystore.key", text=text, key_text=issued.key_pem().replace("\n", " "))
    found = load_key_entry(source, b"")
    assert found.key == issued.key_pem()
    assert found.chain == (issued.der,)
    assert load_trusted(StoreSource("ssl.truststore.certificates", text=text), b"") == (issued.der,)


def test_an_encrypted_pem_key_needs_its_password(tmp_path: Path, issued: Issued) -> None:
    path = issued.write_pem(tmp_path / "own.pem", PHRASE)
    assert key_of(path, key_password=PHRASE).password == PHRASE
    with pytest.raises(LocalError, match=r"own\.pem: the private key is encrypted; set ssl\.key\.password"):
        key_of(path)


def test_an_encrypted_key_in_the_old_format_keeps_its_headers(tmp_path: Path, issued: Issued) -> None:
    old = issued.key.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(PHRASE.encode())
    ).decode()
    path = tmp_path / "own.pem"
    path.write_text(issued.certificate_pem + old)
    assert key_of(path, key_password=PHRASE).key == old


@pytest.mark.parametrize("suffix", ["p12", "jks"])
def test_pkcs12_is_detected_whatever_its_name(tmp_path: Path, issued: Issued, suffix: str) -> None:
    path = issued.write_pkcs12(tmp_path / f"own.{suffix}", "secret")
    found = key_of(path, "secret")
    assert found.chain == (issued.der, issued.issuer.public_bytes(Encoding.DER))
    plain = issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    assert found.key == plain
    with pytest.raises(LocalError, match="password of the key store is wrong"):
        key_of(path, "wrong")


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_of_keytool(tmp_path: Path, authority: Authority, issued: Issued, kind: str) -> None:
    source, target = issued.write_pkcs12(tmp_path / "source.p12", "secret-1"), tmp_path / "keys"
    passwords = ["-srcstorepass", "secret-1", "-deststorepass", "secret-2", "-destkeypass", "secret-2"]
    keytool(
        "-importkeystore", "-srckeystore", source, "-destkeystore", target, "-deststoretype", kind, *passwords
    )
    found = key_of(target, "secret-2")
    assert found.chain[0] == issued.der
    assert found.key == issued.key_pem()
    with pytest.raises(LocalError, match=r"keys: the password of the key store is wrong"):
        key_of(target, "wrong")

    trust = tmp_path / "trust"
    pem = authority.write_pem(tmp_path / "ca.pem")
    keytool(
        "-importcert",
        "-file",
        pem,
        "-alias",
        "ca",
        "-keystore",
        trust,
        "-storetype",
        kind,
        "-storepass",
        "secret-3",
    )
    assert trusted_of(trust, "secret-3") == [authority.certificate.public_bytes(Encoding.DER)]
    with pytest.raises(LocalError, match="no private key"):
        key_of(trust, "secret-3")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a key store in PEM, PKCS12 or JKS format"),
        (b"\xce\xce\xce\xce....", "JCEKS is not supported"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no private key"),
        (b"\xfe\xed\xfe\xed" + bytes(30), "damaged"),
    ],
)
def test_files_that_are_not_key_stores(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "store"
    path.write_bytes(content)
    with pytest.raises(LocalError, match=rf"ssl\.keystore\.location={path}: .*{message}"):
        key_of(path)


def test_missing_parts_are_named(tmp_path: Path, issued: Issued) -> None:
    with pytest.raises(LocalError, match=r"ssl\.keystore\.location: cannot read .*absent: No such file"):
        key_of(tmp_path / "absent")
    path = tmp_path / "key.pem"
    path.write_text(issued.key_pem())
    with pytest.raises(LocalError, match="no certificate"):
        key_of(path)
    with pytest.raises(LocalError, match="no certificate"):
        trusted_of(path)
    with pytest.raises(LocalError, match="a PEM file has no store password"):
        key_of(issued.write_pem(path), "secret")
    with pytest.raises(LocalError, match="not base64"):
        load_trusted(StoreSource("x", text="-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"), b"")


def test_secrets_are_not_part_of_the_text(tmp_path: Path, issued: Issued) -> None:
    found = key_of(issued.write_pem(tmp_path / "own.pem"))
    assert "PRIVATE" not in repr(found)

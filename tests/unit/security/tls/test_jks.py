"""Stores in Java's own format, built here byte by byte, and one by keytool if it is installed."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.security.tls.jks import decrypt_key, read_jks

KEY = b"a key of more than twenty bytes"


def sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


def protected(key: bytes, password: str, salt: bytes = bytes(range(20))) -> bytes:
    """The key as Sun's key protector encrypts it."""
    secret, stream, block = password.encode("utf-16-be"), b"", salt
    while len(stream) < len(key):
        block = sha1(secret, block)
        stream += block
    data = salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + sha1(secret, key)
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    inner = algorithm + b"\x04" + bytes([len(data)]) + data
    return b"\x30" + bytes([len(inner)]) + inner


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def certificate(value: bytes, version: int) -> bytes:
    return (text("X.509") if version == 2 else b"") + struct.pack(">I", len(value)) + value


def store(password: str, version: int = 2, tag: int = 1) -> bytes:
    key = protected(KEY, "key password")
    body = b"\xfe\xed\xfe\xed" + struct.pack(">II", version, 2)
    body += struct.pack(">I", tag) + text("own") + bytes(8) + struct.pack(">I", len(key)) + key
    body += struct.pack(">I", 2) + certificate(b"own", version) + certificate(b"issuer", version)
    body += struct.pack(">I", 2) + text("ca") + bytes(8) + certificate(b"trusted", version)
    return body + sha1(password.encode("utf-16-be"), b"Mighty Aphrodite", body)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("password", ["right", "späť 🔑", None])
def test_a_store_is_read(version: int, password: str | None) -> None:
    found = read_jks(store(password or "any", version), password)
    assert found.trusted == [b"trusted"]
    ((encrypted, chain),) = found.keys
    assert chain == [b"own", b"issuer"]
    assert decrypt_key(encrypted, "key password") == KEY


def test_a_wrong_password_of_the_store_or_the_key_is_refused() -> None:
    with pytest.raises(LocalError, match="password of the key store is wrong"):
        read_jks(store("right"), "wrong")
    with pytest.raises(LocalError, match="password of the key in the key store is wrong"):
        decrypt_key(protected(KEY, "right"), "wrong")


def test_a_damaged_store_is_refused() -> None:
    whole = store("right")
    for size in range(4, len(whole) - 20):
        with pytest.raises(LocalError, match="damaged"):
            read_jks(whole[:size] + whole[-20:], None)
    with pytest.raises(LocalError, match="tag 9"):
        read_jks(store("right", tag=9), None)
    with pytest.raises(LocalError, match="version 3"):
        read_jks(store("right", version=3), None)


def test_another_encryption_of_a_key_is_refused() -> None:
    other = protected(KEY, "right").replace(
        bytes.fromhex("2b060104012a02110101"), bytes.fromhex("2b060104012a02110102")
    )
    with pytest.raises(LocalError, match="not supported"):
        decrypt_key(other, "right")
    with pytest.raises(LocalError, match="damaged"):
        decrypt_key(b"nonsense", "right")


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs keytool")
def test_a_store_of_keytool_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    command = [
        "keytool",
        "-genkeypair",
        "-alias",
        "own",
        "-keyalg",
        "EC",
        "-dname",
        "CN=own",
        "-storetype",
        "JKS",
    ]
    secrets = ["-storepass", "store-password", "-keypass", "other-password"]
    subprocess.run([*command, *secrets, "-keystore", path], check=True, capture_output=True)
    ((encrypted, chain),) = read_jks(path.read_bytes(), "store-password").keys
    assert decrypt_key(encrypted, "other-password").startswith(b"\x30")
    assert chain[0].startswith(b"\x30\x82")

"""Reader for key stores in Java's own format, JKS.

Layout, big-endian: magic, version (1 or 2), number of entries, entries, SHA-1 digest. An entry has a tag (1: key with
its chain, 2: trusted certificate), an alias, a time, and the key or certificate. The digest covers the password, a
fixed text and everything before it.

A key is encrypted with Sun's key protector: 20 bytes of salt, the key combined with a stream of SHA-1 digests, and the
digest of password and key.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from ottla.base.errors import LocalError
from ottla.security.tls.der import OCTET_STRING, SEQUENCE, DerError, object_id, only

MAGIC: Final = b"\xfe\xed\xfe\xed"
_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"
_DIGEST_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_ENTRIES_MAX: Final = 10_000


class JksKey(NamedTuple):
    protected: bytes
    """The key, encrypted."""
    chain: list[bytes]


class JksStore(NamedTuple):
    keys: list[JksKey]
    trusted: list[bytes]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Read a store; LocalError if it is damaged or the password is wrong. Without a password it is not verified."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = _sha1(_password_bytes(password), _WHITENER, body)
        if not hmac.compare_digest(expected, digest):
            raise LocalError("the password of the key store is wrong, or the store is damaged")
    try:
        return _Reader(body).store()
    except (IndexError, ValueError) as error:
        raise LocalError(f"the key store is damaged: {error}") from error


def decrypt_key(protected: bytes, password: str) -> bytes:
    """The key in PKCS#8 form; LocalError if the password is wrong."""
    try:
        algorithm, encrypted = only(protected, SEQUENCE).children()
        identifier = object_id(algorithm.children()[0].content)
    except (DerError, ValueError, IndexError) as error:
        raise LocalError("the key in the key store is damaged") from error
    if identifier != _KEY_PROTECTOR or encrypted.tag != OCTET_STRING:
        raise LocalError(f"the key in the key store is encrypted with {identifier}, which is not supported")
    data, secret = encrypted.content, _password_bytes(password)
    salt, cipher, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    stream, block = bytearray(), salt
    while len(stream) < len(cipher):
        block = _sha1(secret, block)
        stream += block
    key = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(_sha1(secret, key), check):
        raise LocalError("the password of the key in the key store is wrong (ssl.key.password)")
    return key


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = len(MAGIC)

    def store(self) -> JksStore:
        version, count = self._number(4), self._number(4)
        if version not in (1, 2) or count > _ENTRIES_MAX:
            raise ValueError(f"version {version} with {count} entries")
        store = JksStore([], [])
        for _ in range(count):
            tag = self._number(4)
            self._bytes(self._number(2))  # the alias
            self._bytes(8)  # the time
            if tag == _KEY_ENTRY:
                key = self._bytes(self._number(4))
                store.keys.append(JksKey(key, [self._certificate(version) for _ in range(self._number(4))]))
            elif tag == _CERTIFICATE_ENTRY:
                store.trusted.append(self._certificate(version))
            else:
                raise ValueError(f"an entry with tag {tag}")
        return store

    def _certificate(self, version: int) -> bytes:
        if version == 2:
            self._bytes(self._number(2))  # the type, X.509
        return self._bytes(self._number(4))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._bytes(size), "big")

    def _bytes(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError("it ends within an entry")
        found = self._data[self._position : end]
        self._position = end
        return found

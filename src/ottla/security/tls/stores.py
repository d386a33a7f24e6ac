"""Key stores and trust stores: PEM, PKCS12 and JKS, detected by their first bytes and not by a setting.

The result is PEM text, the form in which OpenSSL takes it: a key with its certificates, and trusted certificates. The
errors name the file or the setting, and never contain a password or a key.
"""

from __future__ import annotations

import base64
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError
from ottla.security.extra import require_cryptography
from ottla.security.tls import jks

_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_LINE: Final = 64
_CERTIFICATE_LABELS: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_PKCS12: Final = re.compile(rb"\x30(?:[\x00-\x7f]|\x80|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL)
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_STORE_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True)
class KeyEntry:
    """A private key with its certificates, the own one first."""

    key: str = field(repr=False)
    """PEM text."""
    password: str | None = field(repr=False)
    """The password of the key text; None if it is not encrypted."""
    chain: tuple[bytes, ...]
    """Certificates, DER."""

    @property
    def pem(self) -> str:
        """The key and the chain in one text."""
        return self.key + "".join(map(ssl.DER_cert_to_PEM_cert, self.chain))


@dataclass(frozen=True)
class StoreSource:
    """A key store or trust store: a file, or PEM text in settings. `setting` names it in errors."""

    setting: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    """PEM text of the certificates, in place of a file."""
    key_text: str | None = field(default=None, repr=False)
    key_location: str | None = None
    """Another PEM file with the key, in addition to `location`."""

    @property
    def given(self) -> bool:
        return self.location is not None or self.text is not None or self.key_text is not None

    def read(self) -> bytes:
        """The content of the file, or of both files; empty without a file."""
        if self.location is None:
            return b""
        if self.key_location in (None, self.location):
            return self._read(self.location)
        return self._read(self.location) + b"\n" + self._read(str(self.key_location))

    def _read(self, location: str) -> bytes:
        try:
            data = Path(location).read_bytes()
        except OSError as error:
            raise LocalError(f"{self.setting}: cannot read {location}: {error.strerror}") from error
        if len(data) > _STORE_BYTES_MAX:
            raise LocalError(f"{self.setting}: {location} is too large for a key store")
        return data


def load_key_entry(source: StoreSource, data: bytes) -> KeyEntry:
    """The key of a store with the content `data`; LocalError names what is wrong."""
    try:
        if source.location is None:
            return _pem_key(source.key_text or "", source.text or "", source.key_password)
        if data[:4] == jks.MAGIC:
            return _jks_key(data, source)
        if _PKCS12.match(data):
            return _pkcs12_key(data, source.password)
        _check_pem_file(data, source)
        text = data.decode("ascii", "replace")
        return _pem_key(text, text, source.key_password)
    except LocalError as error:
        raise LocalError(f"{_described(source)}: {error}") from error.__cause__


def load_trusted(source: StoreSource, data: bytes) -> tuple[bytes, ...]:
    """The trusted certificates of a store with the content `data`, DER; LocalError names what is wrong."""
    try:
        if source.location is None:
            found = _certificates(source.text or "")
        elif data[:4] == jks.MAGIC:
            store = jks.read_jks(data, source.password)
            found = [*store.trusted, *(key.chain[0] for key in store.keys if key.chain)]
        elif _PKCS12.match(data):
            found = _pkcs12_trusted(data, source.password)
        else:
            _check_pem_file(data, source)
            found = _certificates(data.decode("ascii", "replace"))
        if not found:
            raise LocalError("it contains no certificate")
    except LocalError as error:
        raise LocalError(f"{_described(source)}: {error}") from error.__cause__
    return tuple(found)


def _described(source: StoreSource) -> str:
    return source.setting if source.location is None else f"{source.setting}={source.location}"


# PEM


def _check_pem_file(data: bytes, source: StoreSource) -> None:
    if data[:4] == _JCEKS_MAGIC:
        raise LocalError("JCEKS is not supported; convert it: keytool -importkeystore -deststoretype PKCS12")
    if b"-----BEGIN" not in data:
        raise LocalError("the file is not a key store in PEM, PKCS12 or JKS format")
    if source.password is not None:
        raise LocalError(
            "a PEM file has no store password; set only ssl.key.password, if its key is encrypted"
        )


def _pem_key(key_text: str, chain_text: str, password: str | None) -> KeyEntry:
    keys = [(label, body) for label, body in _PEM_BLOCK.findall(key_text) if label.endswith("PRIVATE KEY")]
    if not keys:
        raise LocalError("it contains no private key")
    chain = _certificates(chain_text)
    if not chain:
        raise LocalError("it contains no certificate")
    label, body = keys[0]
    encrypted = label.startswith("ENCRYPTED") or "ENCRYPTED" in body
    if encrypted and not password:
        raise LocalError("the private key is encrypted; set ssl.key.password")
    text = (
        _wrapped(label, body) if ":" not in body else f"-----BEGIN {label}-----{body}-----END {label}-----\n"
    )
    return KeyEntry(text, password if encrypted else None, tuple(chain))


def _certificates(text: str) -> list[bytes]:
    found = []
    for label, body in _PEM_BLOCK.findall(text):
        if label in _CERTIFICATE_LABELS:
            try:
                found.append(base64.b64decode("".join(body.split()), validate=True))
            except ValueError as error:
                raise LocalError("a certificate is not base64 text") from error
    return found


def _wrapped(label: str, body: str) -> str:
    """A block with lines of the usual length: in settings, all of it may be on one line."""
    text = "".join(body.split())
    lines = [text[start : start + _PEM_LINE] for start in range(0, len(text), _PEM_LINE)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


# JKS and PKCS12


def _jks_key(data: bytes, source: StoreSource) -> KeyEntry:
    store = jks.read_jks(data, source.password)
    password = source.key_password if source.key_password is not None else source.password
    if not store.keys:
        raise LocalError("it contains no private key")
    if password is None:
        raise LocalError("the password of the key store is missing")
    protected, chain = store.keys[0]
    key = base64.b64encode(jks.decrypt_key(protected, password)).decode()
    return KeyEntry(_wrapped("PRIVATE KEY", key), None, tuple(chain))


def _pkcs12_key(data: bytes, password: str | None) -> KeyEntry:
    key, certificate, others = _pkcs12(data, password)
    if key is None or certificate is None:
        raise LocalError("it contains no private key with a certificate")
    return KeyEntry(key, None, (certificate, *_in_order(certificate, others)))


def _pkcs12_trusted(data: bytes, password: str | None) -> list[bytes]:
    _, certificate, others = _pkcs12(data, password)
    return others if certificate is None else [certificate, *others]


def _pkcs12(data: bytes, password: str | None) -> tuple[str | None, bytes | None, list[bytes]]:
    """The key as PEM text, its certificate and the other certificates, DER."""
    require_cryptography("a key store in PKCS12 format")
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise LocalError("the password of the key store is wrong, or the store is damaged") from error
    key: str | None = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    own: bytes | None = None if store.cert is None else store.cert.certificate.public_bytes(Encoding.DER)
    others: list[bytes] = [each.certificate.public_bytes(Encoding.DER) for each in store.additional_certs]
    return key, own, others


def _in_order(certificate: bytes, others: list[bytes]) -> list[bytes]:
    """The issuers of a certificate, each after the certificate that it has issued."""
    from cryptography import x509

    remaining = [(x509.load_der_x509_certificate(each), each) for each in others]
    current = x509.load_der_x509_certificate(certificate)
    ordered: list[bytes] = []
    while True:
        found = next((each for each in remaining if each[0].subject == current.issuer), None)
        if found is None:
            return ordered
        remaining.remove(found)
        current = found[0]
        ordered.append(found[1])

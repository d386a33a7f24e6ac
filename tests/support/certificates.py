"""Certificates for tests: an authority, certificates that it signs, and the files that clients and brokers read."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOCAL = ("localhost", "127.0.0.1")
_YEAR = timedelta(days=365)


def name(common_name: str, *more: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    parts = [*more, (NameOID.COMMON_NAME, common_name)]
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


class Issued:
    """A key with its certificate."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, issuer: x509.Certificate
    ) -> None:
        self.key = key
        self.certificate = certificate
        self.issuer = issuer

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, [self.issuer], BestAvailableEncryption(password.encode())
            )
        )
        return path


class Authority:
    """A certificate authority."""

    def __init__(self, common_name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name(common_name)
        self.certificate = self._signed(
            self._name, self._key.public_key(), _now() - _YEAR, _now() + _YEAR, authority=True
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def issue(
        self,
        subject: str | x509.Name,
        hosts: tuple[str, ...] = LOCAL,
        *,
        ends: timedelta = _YEAR,
    ) -> Issued:
        """A certificate for server and client; `ends` is negative for one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(
            name(subject) if isinstance(subject, str) else subject,
            key.public_key(),
            _now() - 2 * _YEAR,
            _now() + ends,
            hosts=hosts,
        )
        return Issued(key, certificate, self.certificate)

    def _signed(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        begin: datetime,
        end: datetime,
        *,
        hosts: tuple[str, ...] = (),
        authority: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), False
            )
        if not authority:
            usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        return builder.sign(self._key, hashes.SHA256())


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _now() -> datetime:
    return datetime.now(UTC)

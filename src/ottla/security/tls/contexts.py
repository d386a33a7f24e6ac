"""Contexts of OpenSSL from settings: for a server, and for a client.

Every certificate in a trust store is an anchor of trust, also one of an intermediate authority, as in Java. A private
key reaches OpenSSL through a file in memory (`memfd_create`), because the ssl module loads keys from files only.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.base.errors import LocalError
from ottla.security.tls.settings import ClientAuth, TlsSettings
from ottla.security.tls.stores import KeyEntry

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS13_SUITES: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings, own: KeyEntry, trusted: tuple[bytes, ...]) -> ssl.SSLContext:
    """The context of a listener. Without trusted certificates, those of the system are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[settings.client_auth]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _configure(context, settings, own, trusted, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, own: KeyEntry | None, trusted: tuple[bytes, ...]) -> ssl.SSLContext:
    """The context of a client. Without trusted certificates, those of the system are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_host and settings.check_certificate
    context.verify_mode = ssl.CERT_REQUIRED if settings.check_certificate else ssl.CERT_NONE
    context.options |= ssl.OP_NO_RENEGOTIATION
    _configure(context, settings, own, trusted, ssl.Purpose.SERVER_AUTH)
    return context


def _configure(
    context: ssl.SSLContext,
    settings: TlsSettings,
    own: KeyEntry | None,
    trusted: tuple[bytes, ...],
    purpose: ssl.Purpose,
) -> None:
    versions = [_VERSIONS[name] for name in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.cipher_suites:
        _set_cipher_suites(context, settings.cipher_suites)
    if trusted:
        try:
            context.load_verify_locations(cadata=b"".join(trusted))
        except ssl.SSLError as error:
            raise LocalError(
                f"{settings.truststore.setting}: a certificate is malformed ({error.reason})"
            ) from error
    else:
        context.load_default_certs(purpose)
    if own is not None:
        _load_own(context, own, settings.keystore.setting)


def _load_own(context: ssl.SSLContext, own: KeyEntry, setting: str) -> None:
    with _memory_file(own.pem.encode()) as path:
        try:
            context.load_cert_chain(path, password=own.password or "")
        except ssl.SSLError as error:
            raise LocalError(
                f"{setting}: {_load_failure(error, encrypted=own.password is not None)}"
            ) from error


def _load_failure(error: ssl.SSLError, *, encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    if encrypted:
        return "the private key cannot be decrypted: is ssl.key.password right?"
    return f"the private key or a certificate cannot be used ({error.reason})"


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """The path of a file that exists in memory only, and only within the block."""
    if not hasattr(os, "memfd_create"):
        raise LocalError("private keys are loaded through memfd_create, which only Linux has")
    descriptor = os.memfd_create("ottla")
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


# Cipher suites


def _set_cipher_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Allow only these suites, named as in Java or OpenSSL.

    The ssl module cannot choose among the three suites of TLS 1.3: all of them or none are allowed.
    """
    setting = "ssl.cipher.suites"
    newest = _TLS13_SUITES.intersection(names)
    older = [_openssl_name(name) for name in names if name not in _TLS13_SUITES]
    if newest and newest != _TLS13_SUITES:
        raise LocalError(f"{setting}: of TLS 1.3 name all of {', '.join(sorted(_TLS13_SUITES))}, or none")
    if not newest:
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise LocalError(f"{setting}: none of the suites belongs to a version in ssl.enabled.protocols")
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError as error:
            raise LocalError(f"{setting}: OpenSSL has none of {', '.join(names)}") from error


def _openssl_name(name: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256` in OpenSSL."""
    exchange, found, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not found:
        return name
    cipher = cipher.replace("CBC_", "").replace("POLY1305_SHA256", "POLY1305")
    cipher = re.sub(r"(AES|CAMELLIA)_(\d+)", r"\1\2", cipher)
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")

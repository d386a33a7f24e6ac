"""TLS context of a client: TLS 1.2 or newer; certificate and host name are verified unless disabled."""

from __future__ import annotations

import ssl
import tempfile

from ottla.base.errors import LocalError
from ottla.client.raw.settings import Tls


def context_of(tls: Tls) -> ssl.SSLContext:
    """Create the TLS context. Raise LocalError if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_host and tls.check_certificate
    context.verify_mode = ssl.CERT_REQUIRED if tls.check_certificate else ssl.CERT_NONE
    try:
        if tls.ca_file or tls.ca_text:
            context.load_verify_locations(cafile=tls.ca_file, cadata=tls.ca_text)
        else:
            context.load_default_certs()
        _load_own(context, tls)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise LocalError(f"the TLS files cannot be loaded ({tls}): {error}") from error
    return context


def _load_own(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.certificate_text is not None:
        # The ssl module loads keys from files only. This file is readable by its owner only and is deleted at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as own:
            own.write(f"{tls.certificate_text}\n{tls.key_text or ''}\n")
            own.flush()
            context.load_cert_chain(own.name, password=tls.key_password)
    elif tls.certificate_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file, password=tls.key_password)

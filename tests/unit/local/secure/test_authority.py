"""Certificates of a cluster, verified with OpenSSL's library."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest

from ottla.local.secure.authority import Authority, Pem

NOW = dt.datetime.now(dt.UTC)


def completed(side: ssl.SSLObject) -> bool:
    """Whether the handshake of one side is complete after its next step."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def handshake(server_pem: Pem, client_pem: Pem | None, ca: str, host: str, folder: Path) -> str:
    """The common name that the server sees after a handshake in memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_verify_locations(cadata=ca)
    client.load_verify_locations(cadata=ca)
    server.verify_mode = ssl.CERT_REQUIRED if client_pem else ssl.CERT_NONE
    for context, pem in ((server, server_pem), (client, client_pem)):
        if pem is not None:
            file = folder / "pem"
            file.write_text(pem.key + pem.certificate)
            context.load_cert_chain(file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    pending = [ours, theirs]
    while pending:
        pending = [each for each in pending if not completed(each)]
    found = ours.getpeercert() or {}
    return dict(pair for rdn in found.get("subject", ()) for pair in rdn).get("commonName", "")  # type: ignore[misc, arg-type]


def test_nodes_authenticate_to_one_another(tmp_path: Path) -> None:
    authority = Authority.create("test", NOW)
    node0 = authority.issue("node-0", ["localhost", "127.0.0.1"], NOW)
    node1 = authority.issue("node-1", ["localhost", "::1"], NOW)
    ca = authority.pem.certificate
    assert handshake(node0, node1, ca, "127.0.0.1", tmp_path) == "node-1"
    assert handshake(node1, None, ca, "localhost", tmp_path) == ""


def test_another_host_another_authority_and_an_expired_certificate_are_refused(tmp_path: Path) -> None:
    authority, other = Authority.create("test", NOW), Authority.create("other", NOW)
    node = authority.issue("node-0", ["localhost"], NOW)
    ca = authority.pem.certificate
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(node, None, ca, "example.org", tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(node, None, other.pem.certificate, "localhost", tmp_path)
    past = authority.issue("node-0", ["localhost"], NOW - dt.timedelta(days=1_000))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(past, None, ca, "localhost", tmp_path)


def test_a_node_cannot_sign_certificates(tmp_path: Path) -> None:
    authority = Authority.create("test", NOW)
    node = authority.issue("node-0", ["localhost"], NOW)
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(node.key.encode(), None)
    forger = Authority(x509.load_pem_x509_certificate(node.certificate.encode()), key)  # type: ignore[arg-type]
    forged = forger.issue("admin", ["localhost"], NOW)
    chain = Pem(forged.certificate + node.certificate, forged.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(chain, None, authority.pem.certificate, "localhost", tmp_path)

"""TLS in tests: settings for both sides, and two streams that are connected in memory."""

from __future__ import annotations

import dataclasses
from typing import Any

from ottla.security.tls.endpoints import ClientTls, Loaded, ServerTls, load_client, load_server
from ottla.security.tls.settings import TlsSettings
from ottla.security.tls.stores import StoreSource
from ottla.security.tls.stream import TlsStream
from tests.support.certificates import Authority, Issued


def settings_of(own: Issued | None, trusted: Authority | None, **more: Any) -> TlsSettings:
    keys = StoreSource("ssl.keystore.key")
    if own is not None:
        keys = dataclasses.replace(keys, text=own.certificate_pem, key_text=own.key_pem())
    trust = StoreSource("ssl.truststore.certificates", text=None if trusted is None else trusted.pem)
    return TlsSettings(keys, trust, **more)


def server_loaded(own: Issued, trusted: Authority | None = None, **more: Any) -> Loaded:
    return load_server(settings_of(own, trusted, **more))


def server_of(own: Issued, trusted: Authority | None = None, **more: Any) -> ServerTls:
    return ServerTls(server_loaded(own, trusted, **more))


def client_of(trusted: Authority, own: Issued | None = None, **more: Any) -> ClientTls:
    return ClientTls(load_client(settings_of(own, trusted, **more)))


def connect(client: TlsStream, server: TlsStream) -> None:
    """Exchange messages until both handshakes are complete; raises ssl.SSLError."""
    for _ in range(10):
        client.handshake()
        server.receive(memoryview(client.take_output()))
        server.handshake()
        client.receive(memoryview(server.take_output()))
        if client.established and server.established:
            return
    raise AssertionError("the handshake does not end")


def read_all(stream: TlsStream, size: int = 1 << 20) -> bytes:
    target = memoryview(bytearray(size))
    return bytes(target[: stream.read_into(target)])

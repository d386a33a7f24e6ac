"""The TLS configuration of one listener or one kind of client: loaded from its stores, and replaced while it is used.

`load` reads files and computes, so it runs beside the event loop; `replace` makes its result effective for connections
that are opened later. The certificate of a listener may change its name only if settings allow it, so that a wrong
file does not take a broker off its clients.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import datetime

from ottla.base.errors import LocalError
from ottla.security.principal import ANONYMOUS, Principal, user
from ottla.security.tls.certificates import Certificate, read_certificate, subject_of
from ottla.security.tls.contexts import client_context, server_context
from ottla.security.tls.mapping import PrincipalMapping
from ottla.security.tls.settings import TlsSettings
from ottla.security.tls.stores import KeyEntry, load_key_entry, load_trusted
from ottla.security.tls.stream import TlsStream


@dataclass(frozen=True)
class Loaded:
    """Settings with the content of their stores."""

    settings: TlsSettings
    stores: tuple[bytes, bytes] = field(repr=False)
    """The content of the files of key store and trust store."""
    context: ssl.SSLContext = field(repr=False, compare=False)
    own: KeyEntry | None = field(repr=False, compare=False)
    certificate: Certificate | None = field(compare=False)
    """The own certificate."""
    mapping: PrincipalMapping = field(compare=False)


def load_server(settings: TlsSettings) -> Loaded:
    """Load the configuration of a listener; LocalError if it cannot be used."""
    if not settings.keystore.given:
        raise LocalError(
            "ssl.keystore.location or ssl.keystore.key is missing: a listener with TLS needs a key"
        )
    return _load(settings, server=True)


def load_client(settings: TlsSettings) -> Loaded:
    """Load the configuration of a client; LocalError if it cannot be used."""
    return _load(settings, server=False)


def _load(settings: TlsSettings, *, server: bool) -> Loaded:
    keys, trust = settings.keystore.read(), settings.truststore.read()
    own = load_key_entry(settings.keystore, keys) if settings.keystore.given else None
    trusted = load_trusted(settings.truststore, trust) if settings.truststore.given else ()
    certificate = None
    if own is not None:
        try:
            certificate = read_certificate(own.chain[0])
        except (ValueError, IndexError) as error:
            raise LocalError(f"{settings.keystore.setting}: the certificate is malformed: {error}") from error
    if server and own is not None:
        context = server_context(settings, own, trusted)
    else:
        context = client_context(settings, own, trusted)
    return Loaded(
        settings, (keys, trust), context, own, certificate, PrincipalMapping(settings.mapping_rules)
    )


def check_replacement(
    before: Loaded, after: Loaded, *, allow_dn_changes: bool, allow_san_changes: bool
) -> None:
    """Raise LocalError if a reloaded key store has another name than the one before, as Kafka does."""
    old, new = before.certificate, after.certificate
    if old is None or new is None:
        if old is not new:
            raise LocalError("a key store cannot be added to a listener or removed from it without a restart")
        return
    if not allow_dn_changes and old.subject != new.subject:
        raise LocalError(
            f"the certificate is of {new.subject}, the one before of {old.subject} (ssl.allow.dn.changes is false)"
        )
    if not allow_san_changes and not old.alternative_names <= new.alternative_names:
        raise LocalError(
            "the certificate has fewer alternative names than the one before (ssl.allow.san.changes is false)"
        )
    if after.settings.truststore.given and not before.settings.truststore.given:
        raise LocalError("a trust store cannot be added to a listener without a restart")


class ServerTls:
    """The effective configuration of one listener."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def replace(self, loaded: Loaded) -> None:
        """Use another configuration for new connections."""
        self.loaded = loaded

    def new_stream(self) -> TlsStream:
        return TlsStream(self.loaded.context, server_side=True)

    def principal_of(self, stream: TlsStream) -> Principal:
        """The principal of the client's certificate; LocalError if no rule maps its name."""
        certificate = stream.peer_certificate()
        if certificate is None:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = self.loaded.mapping.name_of(subject)
        if name is None:
            raise LocalError(f"no rule of ssl.principal.mapping.rules matches {subject}")
        return user(name)


class ClientTls:
    """The effective configuration of connections to other nodes."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def replace(self, loaded: Loaded) -> None:
        """Use another configuration for new connections."""
        self.loaded = loaded

    def new_stream(self, host: str) -> TlsStream:
        return TlsStream(self.loaded.context, server_side=False, host=host)


def expiry_warning(loaded: Loaded, now: datetime) -> str | None:
    """A warning if the own certificate has expired: clients will refuse it."""
    certificate = loaded.certificate
    if certificate is None or certificate.not_after > now:
        return None
    return (
        f"the certificate of {certificate.subject} has expired at {certificate.not_after:%Y-%m-%d %H:%M} UTC"
    )


def check_own_clients(loaded: Loaded, client: Loaded) -> None:
    """Raise LocalError if a client with these settings cannot connect to a server with them, as Kafka does."""
    server_stream = TlsStream(loaded.context, server_side=True)
    client_stream = _without_host_check(client)
    try:
        while not (server_stream.established and client_stream.established):
            client_stream.handshake()
            sent = client_stream.take_output()
            server_stream.receive(memoryview(sent))
            server_stream.handshake()
            received = server_stream.take_output()
            client_stream.receive(memoryview(received))
            if not sent and not received:
                break
    except ssl.SSLError as error:
        raise LocalError(
            "nodes with these settings cannot connect to each other: the key store does not match the trust store "
            f"({error.reason}: {getattr(error, 'verify_message', '')})"
        ) from error


def _without_host_check(client: Loaded) -> TlsStream:
    """A stream of a client that accepts any host name: the names of other nodes are not known here."""
    settings = client.settings
    trusted = load_trusted(settings.truststore, client.stores[1]) if settings.truststore.given else ()
    context = client_context(settings, client.own, trusted)
    context.check_hostname = False
    return TlsStream(context, server_side=False)

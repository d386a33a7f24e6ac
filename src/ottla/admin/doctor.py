"""Diagnosis of a connection: why a client cannot connect, step by step.

For each bootstrap address: the name is resolved, a TCP connection is opened, the kind of the server is determined, then
a client connects as configured. The brokers of the cluster are then checked at the addresses that they advertise,
because clients use those after the first request.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from ottla.admin.session import CLIENT_ID
from ottla.base.errors import LocalError, OttlaError
from ottla.client.raw import AuthenticationFailed, ClientError, ClientSettings, Unsupported
from ottla.client.raw.connection import Connection
from ottla.client.raw.tls import context_of
from ottla.wire.apis import ApiKey
from ottla.wire.frames import SIZE, request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import Message

OK, FAILED, NOTE = "ok", "failed", "note"
_NEEDED: tuple[type[Message], ...] = (
    MetadataRequest,
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    FindCoordinatorRequest,
)
_CORRELATION = 0x0077_1A0D
_PROBE_BYTES = 64
_LOOPBACK = ("localhost", "127.", "::1")
_OTHER_HOST = (
    "connect by a name that is in the certificate, which must contain the names in advertised.listeners"
)
_CERTIFICATE_HINTS = {
    9: "the certificate of the broker is not valid yet: correct the clock of this machine or of its authority",
    10: "the certificate of the broker has expired: renew it, or correct the clock of this machine",
    62: _OTHER_HOST,
    64: _OTHER_HOST,
}
"""What to do about a certificate, by OpenSSL's code of the verification (X509_V_ERR_…)."""


class Server(Enum):
    """What responds to the first request of a Kafka client without TLS."""

    KAFKA = "a Kafka broker without TLS"
    TLS = "a server that expects TLS"
    HTTP = "an HTTP server"
    OTHER = "a server of another protocol"
    CLOSED = "a server that closes the connection"
    SILENT = "a server that does not respond"


@dataclass(frozen=True)
class Finding:
    """The result of one step."""

    status: str
    """ok, failed or note."""
    step: str
    text: str
    hint: str = ""


def diagnose(bootstrap: str, settings: Mapping[str, str], timeout_s: float) -> Iterator[Finding]:
    """The findings, in the order in which they are made. The last ones name the cause."""
    try:
        wanted = ClientSettings.from_options(
            {
                "client.id": CLIENT_ID,
                "request.timeout.ms": str(int(timeout_s * 1000)),
                "socket.connection.setup.timeout.ms": str(int(timeout_s * 1000)),
                **settings,
                "bootstrap.servers": bootstrap,
            }
        )
        context = None if wanted.tls is None else context_of(wanted.tls)
    except LocalError as error:
        yield Finding(
            FAILED,
            "settings",
            str(error),
            "correct the setting; the names are those of librdkafka or of Java clients",
        )
        return
    clusters: dict[str, list[str]] = {}
    metadata: MetadataResponse | None = None
    for host, port in wanted.bootstrap:
        found = yield from _check_address(host, port, wanted, context, timeout_s)
        if found is not None:
            clusters.setdefault(found.cluster_id or "", []).append(f"{host}:{port}")
            metadata = metadata or found
    if len(clusters) > 1:
        named = "; ".join(f"{', '.join(each)}: {name}" for name, each in clusters.items())
        yield Finding(
            FAILED,
            "cluster",
            f"the bootstrap servers belong to different clusters: {named}",
            "name the brokers of one cluster only",
        )
    if metadata is not None:
        yield from _check_advertised(metadata, wanted, context, timeout_s)


def _check_address(
    host: str, port: int, wanted: ClientSettings, context: ssl.SSLContext | None, timeout_s: float
) -> Generator[Finding, None, MetadataResponse | None]:
    """All checks of one bootstrap address; the metadata if all is well."""
    address = f"{host}:{port}"
    reached = yield from _check_network(host, port, timeout_s)
    if not reached:
        return None
    server = probe(host, port, timeout_s)
    mismatch = _mismatch(server, address, wanted)
    if mismatch is not None:
        yield mismatch
        return None
    try:
        connection = Connection(host, port, wanted, context)
    except AuthenticationFailed as error:
        yield Finding(FAILED, "security", str(error), _security_hint(error, wanted))
        return None
    except ClientError as error:
        yield Finding(FAILED, "protocol", f"{address}: {error}", _security_hint(error, wanted))
        return None
    try:
        return (yield from _check_protocol(connection, wanted))
    finally:
        connection.close()


def _check_network(host: str, port: int, timeout_s: float) -> Generator[Finding, None, bool]:
    """DNS and TCP; whether the address was reached."""
    try:
        resolved = sorted({each[4][0] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except OSError as error:
        yield Finding(
            FAILED,
            "dns",
            f"the name {host} cannot be resolved: {error.strerror or error}",
            "check the spelling; inside Docker or Kubernetes names are known inside only",
        )
        return False
    if resolved != [host]:
        yield Finding(OK, "dns", f"{host} is {', '.join(map(str, resolved))}")
    try:
        socket.create_connection((host, port), timeout_s).close()
    except ConnectionRefusedError:
        hint = "start the broker (`ottla up`, `ottla broker`), or correct the port"
        if not host.startswith(_LOOPBACK):
            hint += "; a broker that listens on 127.0.0.1 is reached from its own machine only"
        yield Finding(FAILED, "tcp", f"{host}:{port} refuses the connection: no program listens there", hint)
        return False
    except OSError as error:
        yield Finding(
            FAILED,
            "tcp",
            f"{host}:{port} cannot be reached: {error}",
            "check the address, the network and firewalls on the way",
        )
        return False
    yield Finding(OK, "tcp", f"{host}:{port} accepts connections")
    return True


def _mismatch(server: Server, address: str, wanted: ClientSettings) -> Finding | None:
    """The finding if the server cannot be what the settings expect."""
    if server in (Server.HTTP, Server.OTHER):
        return Finding(
            FAILED, "protocol", f"{address} is not a Kafka broker, but {server.value}", "correct the port"
        )
    if server is Server.TLS and wanted.tls is None:
        return Finding(
            FAILED,
            "security",
            f"{address} expects TLS, and this client is configured without",
            "give -X security.protocol=SSL (or SASL_SSL), and ssl.ca.location for an own authority",
        )
    if server is Server.KAFKA and wanted.tls is not None:
        return Finding(
            FAILED,
            "security",
            f"{address} expects no TLS, and this client is configured with TLS",
            "give -X security.protocol=PLAINTEXT (or SASL_PLAINTEXT), or use the port of the TLS listener",
        )
    if server is Server.SILENT:
        return Finding(
            FAILED,
            "protocol",
            f"{address} accepts connections, but does not respond",
            "the broker is stopped, overloaded or starting, or this is not a broker",
        )
    return None


def _security_hint(error: OttlaError, wanted: ClientSettings) -> str:
    """What to do about a connection that failed, by the cause of the failure."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _CERTIFICATE_HINTS.get(
            cause.verify_code,
            "name the authority that has signed the certificate of the broker in ssl.ca.location",
        )
    if isinstance(cause, ssl.SSLError):
        return (
            "check security.protocol, and ssl.certificate.location and ssl.key.location if the broker requires a "
            "certificate of the client"
        )
    if isinstance(error, Unsupported):
        return "the broker does not support this client: use a newer version of one of them"
    if wanted.sasl is not None:
        return "check sasl.mechanism, sasl.username and sasl.password"
    if wanted.tls is not None:
        return "check security.protocol: the listener may need SASL_SSL with sasl.* settings"
    return "the listener may need security.protocol=SASL_PLAINTEXT with sasl.* settings"


def _check_protocol(
    connection: Connection, wanted: ClientSettings
) -> Generator[Finding, None, MetadataResponse | None]:
    """API versions and metadata; the metadata if all is well."""
    secured = []
    if wanted.tls is not None:
        secured.append("TLS")
    if wanted.sasl is not None:
        secured.append(f"{wanted.sasl.mechanism} as {wanted.sasl.username}")
    how = f" with {' and '.join(secured)}" if secured else ""
    if ApiKey.VOTE in connection.versions and ApiKey.METADATA not in connection.versions:
        yield Finding(
            FAILED,
            "protocol",
            f"{connection.address} is the listener of a controller, which serves no clients",
            "use the port of a broker: a listener that is not in controller.listener.names",
        )
        return None
    try:
        for request in _NEEDED:
            connection.version_of(request)
        response = connection.request(MetadataRequest(topics=[]), MetadataResponse)
    except OttlaError as error:
        yield Finding(FAILED, "protocol", str(error), _security_hint(error, wanted))
        return None
    yield Finding(
        OK,
        "protocol",
        f"{connection.address} is a Kafka broker{how}: {len(connection.versions)} APIs, cluster {response.cluster_id}",
    )
    return response


def _check_advertised(
    metadata: MetadataResponse, wanted: ClientSettings, context: ssl.SSLContext | None, timeout_s: float
) -> Iterator[Finding]:
    """Whether the brokers can be reached at the addresses that they advertise."""
    known = set(wanted.bootstrap)
    if not metadata.brokers:
        yield Finding(
            FAILED,
            "brokers",
            "the cluster lists no broker",
            "the brokers are starting, or fenced by the controller",
        )
    for broker in sorted(metadata.brokers, key=lambda each: each.node_id):
        name = f"broker {broker.node_id}"
        address = f"{broker.host}:{broker.port}"
        hint = f"set advertised.listeners of {name} to an address that this machine can reach"
        failure = None
        for finding in _check_network(broker.host, broker.port, timeout_s):
            if finding.status == FAILED:
                failure = finding.text
        if failure is not None:
            yield Finding(FAILED, "advertised", f"{name} advertises {address}: {failure}", hint)
            continue
        try:
            Connection(broker.host, broker.port, wanted, context).close()
        except ClientError as error:
            if isinstance(error, AuthenticationFailed):
                hint = _security_hint(error, wanted)
            yield Finding(FAILED, "advertised", f"{name} advertises {address}: {error}", hint)
            continue
        yield Finding(OK, "advertised", f"{name} can be reached at {address}, which it advertises")
        if broker.host.startswith(_LOOPBACK) and not any(host.startswith(_LOOPBACK) for host, _ in known):
            yield Finding(
                NOTE,
                "advertised",
                f"{name} advertises {address}, which other machines resolve to themselves",
                hint,
            )


def probe(host: str, port: int, timeout_s: float) -> Server:
    """What responds at an address to an ApiVersions request without TLS."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(request_frame(ApiVersionsRequest(), 0, _CORRELATION, CLIENT_ID))
            received = bytearray()
            while len(received) < 8 and (piece := connection.recv(_PROBE_BYTES)):
                received += piece
                if kind_of(bytes(received)) is not None:
                    break
    except TimeoutError:
        return Server.SILENT
    except OSError:
        received = bytearray()
    kind = kind_of(bytes(received))
    if kind is not None:
        return kind
    if received:
        return Server.OTHER
    return Server.TLS if _speaks_tls(host, port, timeout_s) else Server.CLOSED


def kind_of(received: bytes) -> Server | None:
    """The server by its first bytes; None if they are not conclusive."""
    if received[:2] == b"\x15\x03":  # an alert of TLS
        return Server.TLS
    if received[:5] in (b"HTTP/", b"<html", b"<!DOC"):
        return Server.HTTP
    if len(received) >= 8:
        size, correlation = SIZE.unpack_from(received)[0], int.from_bytes(received[4:8])
        return Server.KAFKA if correlation == _CORRELATION and size > 0 else Server.OTHER
    return None


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError), socket.create_connection((host, port), timeout_s) as plain:
        try:
            context.wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLError as error:
            # A server that asks for a certificate of the client has spoken TLS as well.
            return "ALERT" in (error.reason or "")
        return True
    return False

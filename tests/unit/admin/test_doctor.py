"""Diagnosis of addresses where no broker, or another server, listens."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from ottla.admin.doctor import FAILED, OK, Finding, Server, diagnose, kind_of, probe
from ottla.local.ports import free_port
from tests.support.certificates import LOCAL, Authority

TIMEOUT_S = 5.0


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that calls a function with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    serve(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def sends(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(data)

    return serve


def last(address: str, settings: dict[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> Finding:
    return list(diagnose(address, settings or {}, timeout_s))[-1]


def test_an_invalid_setting_is_the_first_finding() -> None:
    (found,) = diagnose("h:1", {"security.protocol": "none"}, TIMEOUT_S)
    assert (found.status, found.step) == (FAILED, "settings")


def test_a_name_that_does_not_exist() -> None:
    found = last("name.invalid:9092")
    assert (found.status, found.step) == (FAILED, "dns")
    assert "name.invalid cannot be resolved" in found.text


def test_a_port_without_a_program() -> None:
    address = f"127.0.0.1:{free_port()}"
    found = last(address)
    assert (found.status, found.step) == (FAILED, "tcp")
    assert f"{address} refuses the connection" in found.text
    assert "ottla up" in found.hint


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a Kafka broker, but an HTTP server"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "not a Kafka broker, but a server of another protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "expects TLS"),
        (b"", "closed the connection"),
    ],
)
def test_servers_of_other_protocols(data: bytes, words: str) -> None:
    with server(sends(data)) as address:
        found = last(address)
    assert found.status == FAILED
    assert words in found.text


def test_a_server_that_does_not_respond() -> None:
    done = threading.Event()
    with server(lambda _: bool(done.wait(TIMEOUT_S)) and None) as address:
        found = last(address, timeout_s=0.2)
        done.set()
    assert "does not respond" in found.text


def test_tls_for_a_listener_without() -> None:
    host, port = "127.0.0.1", 1
    assert probe(host, port, TIMEOUT_S) is Server.CLOSED
    response = bytes.fromhex("0000000a 00771a0d 0000 00000000".replace(" ", ""))
    with server(sends(response)) as address:
        found = last(address, {"security.protocol": "SSL"})
    assert "expects no TLS" in found.text


def test_a_listener_that_closes_plain_connections_and_speaks_tls() -> None:
    """As a broker with TLS does that sends no alert: recognized by a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")

    def serve(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            with suppress(ssl.SSLError):
                context.wrap_socket(connection, server_side=True)

    with server(serve) as address:
        assert "expects TLS" in last(address).text


def test_first_bytes() -> None:
    assert kind_of(b"") is None
    assert kind_of(b"\x00\x00\x00") is None
    assert kind_of(b"\x00\x00\x00\x0a\x00\x00\x00\x01") is Server.OTHER


def test_findings_start_with_what_is_well() -> None:
    with server(sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        first = next(iter(diagnose(address, {}, TIMEOUT_S)))
    assert (first.status, first.step) == (OK, "tcp")


@pytest.mark.parametrize(
    ("hosts", "ends", "trusted", "hint"),
    [
        (LOCAL, timedelta(days=9), False, "ssl.ca.location"),
        (("broker.example",), timedelta(days=9), True, "a name that is in the certificate"),
        (LOCAL, -timedelta(days=9), True, "has expired"),
    ],
)
def test_the_hint_for_a_certificate_names_its_defect(
    tmp_path: Path, hosts: tuple[str, ...], ends: timedelta, trusted: bool, hint: str
) -> None:
    authority, other = Authority(), Authority("another authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("broker", hosts, ends=ends).write_pem(tmp_path / "broker.pem"))

    def serve(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            with suppress(ssl.SSLError):
                context.wrap_socket(connection, server_side=True).close()

    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": str((authority if trusted else other).write_pem(tmp_path / "ca.pem")),
    }
    with server(serve) as address:
        found = last(address, settings)
    assert (found.status, found.step) == (FAILED, "security")
    assert hint in found.hint

"""Two streams in memory: bytes in small and large portions, ends and errors."""

from __future__ import annotations

import ctypes
import ssl

import pytest

from ottla.security.tls.stream import TlsStream, describe
from tests.support.certificates import Authority
from tests.support.tls import client_of, connect, read_all, server_of


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
def pair(request: pytest.FixtureRequest, authority: Authority) -> tuple[TlsStream, TlsStream]:
    protocols = (request.param,)
    client = client_of(authority, protocols=protocols).new_stream("localhost")
    server = server_of(authority.issue("server"), protocols=protocols).new_stream()
    connect(client, server)
    return client, server


def test_bytes_arrive_in_any_portions(pair: tuple[TlsStream, TlsStream]) -> None:
    client, server = pair
    sent = bytes(range(256)) * 400
    client.encrypt(sent)
    encrypted = client.take_output()
    assert sent[:64] not in encrypted
    received = b""
    for start in range(0, len(encrypted), 1_000):
        server.receive(memoryview(encrypted)[start : start + 1_000])
        while server.pending and (found := read_all(server, 777)):
            received += found
    assert received == sent
    assert not server.pending
    assert client.take_output() == b""


def test_what_does_not_fit_stays_pending(pair: tuple[TlsStream, TlsStream]) -> None:
    client, server = pair
    client.encrypt(b"0123456789")
    client.encrypt(memoryview(b"abc"))
    server.receive(memoryview(client.take_output()))
    assert read_all(server, 4) == b"0123"
    assert server.pending
    assert read_all(server) == b"456789abc"
    assert not server.pending
    assert not server.ended


def test_the_end_is_announced(pair: tuple[TlsStream, TlsStream]) -> None:
    client, server = pair
    client.end()
    server.receive(memoryview(client.take_output()))
    assert read_all(server) == b""
    assert server.ended


def test_a_changed_record_is_an_error(pair: tuple[TlsStream, TlsStream]) -> None:
    client, server = pair
    client.encrypt(b"value")
    damaged = bytearray(client.take_output())
    damaged[-1] ^= 1
    server.receive(memoryview(damaged))
    with pytest.raises(ssl.SSLError):
        read_all(server)


def test_the_reason_of_a_failed_handshake(authority: Authority) -> None:
    client = client_of(Authority("another")).new_stream("localhost")
    with pytest.raises(ssl.SSLError) as failed:
        connect(client, server_of(authority.issue("server")).new_stream())
    assert describe(failed.value).startswith("the certificate of the other side is not accepted: ")
    assert describe(OSError("text")) == "text"
    assert describe(ssl.SSLError(1, "text")) != ""


class _Memory(ctypes.Structure):
    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(10)]


def used_bytes() -> int:
    """What malloc has allocated: small blocks and mapped ones."""
    memory = ctypes.CDLL(None).mallinfo2
    memory.restype = _Memory
    found = memory()
    return int(found.field_7) + int(found.field_4)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs the C library of GNU")
def test_a_handshake_that_waits_for_the_client_needs_less_than_50_kib(authority: Authority) -> None:
    server, client = server_of(authority.issue("server"), authority), client_of(authority)
    stream = client.new_stream("localhost")
    stream.handshake()
    hello = stream.take_output()

    def begun() -> TlsStream:
        made = server.new_stream()
        made.receive(memoryview(hello))
        made.handshake()
        assert made.take_output()
        return made

    first = begun()
    before = used_bytes()
    streams = [begun() for _ in range(100)]
    assert (used_bytes() - before) / len(streams) < 50 * 1024
    assert not first.established

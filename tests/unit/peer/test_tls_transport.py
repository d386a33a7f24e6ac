"""Connections to other nodes with TLS, on a transport in memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

import pytest

from ottla.peer.tls_transport import TlsTransport
from ottla.peer.transport import Buffer
from ottla.security.tls.settings import ClientAuth
from ottla.security.tls.stream import TlsStream
from tests.support.certificates import Authority
from tests.support.tls import client_of, read_all, server_of

AUTHORITY = Authority()
OWN = AUTHORITY.issue("server")


class Below:
    """A transport whose other end is a TLS server in the same test."""

    def __init__(self, server: TlsStream) -> None:
        self.server = server
        self.incoming = bytearray()
        self.received = b""
        self.closed = False
        self.ended = False
        self.refusal: ssl.SSLError | None = None
        self.on_readable: Callable[[], None] = lambda: None

    def start(self, on_readable: Callable[[], None], on_failed: Callable[[OSError], None]) -> None:
        self.on_readable = on_readable

    def receive_into(self, target: memoryview) -> int:
        if not self.incoming and not self.ended:
            raise BlockingIOError
        size = min(len(target), len(self.incoming))
        target[:size] = self.incoming[:size]
        del self.incoming[:size]
        return size

    def expect(self, count: int) -> None:
        raise NotImplementedError

    def send(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self.server.receive(memoryview(buffer))
        try:
            if not self.server.established:
                self.server.handshake()
            if self.server.established:
                self.received += read_all(self.server)
        except ssl.SSLError as error:
            self.refusal = error
        self.incoming += self.server.take_output()

    def close(self) -> None:
        self.closed = True

    def deliver(self, data: bytes) -> None:
        self.server.encrypt(data)
        self.incoming += self.server.take_output()


class Setup:
    def __init__(self, host: str = "localhost", **server: object) -> None:
        self.loop = asyncio.new_event_loop()
        self.below = Below(server_of(OWN, AUTHORITY, **server).new_stream())
        self.transport = TlsTransport(self.loop, self.below, client_of(AUTHORITY).new_stream(host))
        self.failures: list[OSError] = []
        self.received = b""
        self.ended = False

    def start(self) -> None:
        self.transport.start(self._on_readable, self.failures.append)

    def _on_readable(self) -> None:
        target = memoryview(bytearray(1_000))
        try:
            count = self.transport.receive_into(target)
        except BlockingIOError:
            return
        except OSError as error:
            self.failures.append(error)
            return
        self.ended = not count
        self.received += bytes(target[:count])

    def run(self) -> None:
        """Report readable bytes until there are none, and let callbacks run."""
        while self.below.incoming:
            self.below.on_readable()
        for _ in range(100):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()


@pytest.fixture(autouse=True)
def _close_loops(monkeypatch: pytest.MonkeyPatch) -> object:
    made: list[asyncio.AbstractEventLoop] = []
    create = asyncio.new_event_loop

    def new() -> asyncio.AbstractEventLoop:
        made.append(create())
        return made[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", new)
    yield
    for loop in made:
        loop.close()


def test_what_is_sent_during_the_handshake_waits() -> None:
    test = Setup()
    test.start()
    test.transport.send([b"first ", memoryview(b"second ")])
    assert test.below.received == b""
    test.run()
    assert test.below.received == b"first second "
    test.transport.send([b"third " * 100_000])
    assert test.below.received == b"first second " + b"third " * 100_000


def test_received_bytes_are_delivered_in_portions() -> None:
    test = Setup()
    test.start()
    test.run()
    test.below.deliver(bytes(range(250)) * 100)
    test.run()
    assert test.received == bytes(range(250)) * 100


def test_a_server_that_is_not_trusted_is_reported() -> None:
    test = Setup("elsewhere.example")
    test.start()
    test.run()
    (failure,) = test.failures
    assert isinstance(failure, ssl.SSLCertVerificationError)
    assert test.below.refusal is not None, "the other side is notified"


def test_the_end_of_the_stream_during_and_after_the_handshake() -> None:
    test = Setup()
    test.below.ended = True
    test.start()
    test.below.incoming.clear()
    test.below.on_readable()
    assert [str(failure) for failure in test.failures] == [
        "the connection was closed during the TLS handshake"
    ]
    test = Setup()
    test.start()
    test.run()
    test.below.ended = True
    test.below.on_readable()
    assert test.ended


def test_a_refused_certificate_is_an_error_of_tls() -> None:
    test = Setup(client_auth=ClientAuth.REQUIRED, protocols=("TLSv1.3",))
    test.start()
    test.run()
    assert test.below.refusal is not None
    (failure,) = test.failures
    assert isinstance(failure, ssl.SSLError)


def test_closing_announces_the_end() -> None:
    test = Setup()
    test.start()
    test.run()
    test.transport.close()
    test.transport.close()
    test.transport.send([b"late"])
    assert test.below.closed
    assert test.below.server.ended
    assert test.below.received == b""

"""Connections with TLS over real sockets: the handshake, its limits, and requests in any portions."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import pytest
import structlog

from ottla.base.executor import ThreadExecutor
from ottla.broker.net.authentication import SaslListener
from ottla.broker.net.connection import Connection
from ottla.broker.net.edge import Edge
from ottla.broker.net.limits import Limits
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.outbox import PendingResponse
from ottla.broker.net.server import Server, listening_socket
from ottla.broker.net.tls_connection import TlsConnection
from ottla.broker.net.tls_listeners import TlsListeners
from ottla.security.principal import ANONYMOUS, Principal, user
from ottla.security.protocol import SecurityProtocol
from ottla.security.tls.settings import ClientAuth
from tests.support.certificates import Authority, Issued
from tests.support.tls import client_of, read_all, server_of

TIMEOUT_S = 20
AUTHORITY = Authority()
OWN = AUTHORITY.issue("server")
OTHER = b"\x00\x03"


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Setup:
    """A server whose responses are the requests themselves."""

    def __init__(self, limits: Limits, protocol: SecurityProtocol, **settings: object) -> None:
        loop = asyncio.get_running_loop()
        self.executor = ThreadExecutor(loop.call_soon_threadsafe, 2)
        self.principals: list[Principal] = []
        self.waiting: list[tuple[Connection, PendingResponse, bytes]] = []
        self.later = False
        self.logged: list[str] = []
        tls = TlsListeners({"SECURE": server_of(OWN, AUTHORITY, **settings)}, self.executor)
        log = structlog.wrap_logger(None, processors=[self._log])
        self.edge = Edge(loop, limits, dict.fromkeys(ListenerType, self.handle), log, tls=tls)
        self.server = Server(self.edge, listening_socket)
        wanted = Listener("SECURE", "127.0.0.1", 0, "127.0.0.1", 0, protocol=protocol)
        (listener,) = self.server.bind([wanted])
        self.server.serve()
        self.port = listener.port

    def _log(self, logger: object, method: str, event: structlog.typing.EventDict) -> str:
        self.logged.append(str(event.get("reason")))
        raise structlog.DropEvent

    def handle(self, connection: Connection, frame: memoryview) -> None:
        self.principals.append(connection.origin.principal)
        payload = bytes(frame)
        if not self.later:
            connection.respond((framed(payload),))
            return
        pending = PendingResponse()
        connection.reserve(pending, exclusive=True)
        self.waiting.append((connection, pending, payload))

    async def connect(self, own: Issued | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = client_of(AUTHORITY, own).loaded.context
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    def close(self) -> None:
        self.server.stop(lambda: None)
        self.server.abort()
        self.executor.close()


def run(
    scenario: Callable[[Setup], Awaitable[None]],
    limits: Limits | None = None,
    protocol: SecurityProtocol = SecurityProtocol.SSL,
    **settings: object,
) -> None:
    async def body() -> None:
        setup = Setup(limits or Limits(), protocol, **settings)
        try:
            await asyncio.wait_for(scenario(setup), TIMEOUT_S)
        finally:
            setup.close()

    asyncio.run(body())


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What arrives until the server closes the connection."""
    try:
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize("protocols", [("TLSv1.2",), ("TLSv1.3",)])
def test_many_and_large_requests(protocols: tuple[str, ...]) -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        payloads = [OTHER + b"%d" % number for number in range(500)]
        payloads += [OTHER + bytes([number]) * 300_000 for number in range(5)]
        writer.write(b"".join(map(framed, payloads)))
        assert [await read_frame(reader) for _ in payloads] == payloads
        writer.close()

    run(scenario, protocols=protocols)


def test_requests_that_were_received_while_one_waits() -> None:
    async def scenario(setup: Setup) -> None:
        setup.later = True
        reader, writer = await setup.connect()
        payloads = [OTHER + b"%d" % number * 1_000 for number in range(50)]
        writer.write(b"".join(map(framed, payloads)))
        for payload in payloads:
            while not setup.waiting:  # noqa: ASYNC110 - the next callbacks of the loop
                await asyncio.sleep(0)
            connection, pending, taken = setup.waiting.pop()
            assert taken == payload
            connection.complete(pending, (framed(taken),))
            assert await read_frame(reader) == payload
        writer.close()

    run(scenario)


def test_the_certificate_is_the_principal() -> None:
    async def scenario(setup: Setup) -> None:
        for own, expected in ((AUTHORITY.issue("alice"), user("CN=alice")), (None, ANONYMOUS)):
            reader, writer = await setup.connect(own)
            writer.write(framed(OTHER))
            await read_frame(reader)
            assert setup.principals.pop() == expected
            writer.close()

    run(scenario, client_auth=ClientAuth.REQUESTED)


def test_with_sasl_the_certificate_is_not_the_principal() -> None:
    async def scenario(setup: Setup) -> None:
        without = SimpleNamespace(authenticate=lambda connection, handler: None)
        setup.edge.sasl_listeners = {"SECURE": cast(SaslListener, without)}
        reader, writer = await setup.connect(AUTHORITY.issue("alice"))
        writer.write(framed(OTHER))
        await read_frame(reader)
        assert setup.principals == [ANONYMOUS]
        writer.close()

    run(scenario, protocol=SecurityProtocol.SASL_SSL, client_auth=ClientAuth.REQUIRED)


def test_a_name_that_no_rule_maps_closes_the_connection() -> None:
    async def scenario(setup: Setup) -> None:
        reader, _ = await setup.connect(AUTHORITY.issue("alice"))
        assert await closed(reader) == b""
        assert setup.logged == ["no rule of ssl.principal.mapping.rules matches CN=alice"]
        assert setup.principals == []

    run(scenario, client_auth=ClientAuth.REQUIRED, mapping_rules="RULE:CN=bob/bob/")


def test_plain_bytes_close_the_connection() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", setup.port)
        writer.write(framed(OTHER))
        await closed(reader)
        assert setup.logged == ["the client does not use TLS, but the listener requires it"]
        writer.close()

    run(scenario)


def test_a_failed_handshake_is_reported_to_both_sides() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            await reader.read()
        assert setup.logged == ["the TLS handshake failed: peer did not return a certificate"]
        writer.close()

    run(scenario, client_auth=ClientAuth.REQUIRED, protocols=("TLSv1.3",))


def test_a_stalled_handshake_is_closed() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", setup.port)
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        assert await closed(reader) == b""
        assert setup.logged == ["the TLS handshake was not completed in time"]
        writer.close()

    run(scenario, Limits(handshake_seconds_max=0.1))


def test_a_handshake_that_is_too_large_is_closed() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", setup.port)
        # The beginning of a ClientHello of 64 KiB in records of 4 KiB.
        hello = b"\x01\x01\x00\x00" + bytes(0x10000)
        with suppress(ConnectionError):
            for start in range(0, len(hello), 0x1000):
                part = hello[start : start + 0x1000]
                writer.write(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part)
                await writer.drain()
        await closed(reader)
        assert setup.logged == ["the messages of the TLS handshake are too large"]
        writer.close()

    run(scenario)


def test_the_server_stops_during_handshakes() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", setup.port)
        while not setup.edge.connections:  # noqa: ASYNC110 - the next callbacks of the loop
            await asyncio.sleep(0)
        drained = asyncio.Event()
        setup.server.stop(drained.set)
        await drained.wait()
        assert await closed(reader) == b""
        writer.close()

    run(scenario)


def test_the_end_of_a_connection_is_announced() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        writer.write(framed(OTHER))
        await read_frame(reader)
        setup.server.abort()
        assert await reader.read() == b"", "an end without the announcement raises ssl.SSLEOFError"
        writer.close()

    run(scenario)


def test_a_handshake_in_single_bytes_and_a_request_behind_it() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", setup.port)
        client = client_of(AUTHORITY, AUTHORITY.issue("alice")).new_stream("localhost")
        while not client.established:
            client.handshake()
            if client.established:
                client.encrypt(framed(OTHER + b"first"))
            output = client.take_output()
            for position in range(0, len(output), 1 + len(output) // 100):
                writer.write(output[position : position + 1 + len(output) // 100])
                await writer.drain()
                await asyncio.sleep(0)
            if not client.established:
                client.receive(memoryview(await reader.read(1 << 16)))
        received = b""
        while len(received) < 11:
            client.receive(memoryview(await reader.read(1 << 16)))
            received += read_all(client)
        assert received == framed(OTHER + b"first")
        assert setup.principals == [user("CN=alice")]
        writer.close()

    run(scenario, client_auth=ClientAuth.REQUIRED)


def test_an_incomplete_record_costs_little_memory() -> None:
    async def scenario(setup: Setup) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", setup.port)
        writer.write(b"\x16\x03\x01\x20\x00" + bytes(8_000))
        await writer.drain()
        while not setup.edge.connections:  # noqa: ASYNC110 - the next callbacks of the loop
            await asyncio.sleep(0)
        (connection,) = setup.edge.connections
        assert isinstance(connection, TlsConnection)
        while connection._handshake_bytes < 8_005:  # noqa: ASYNC110 - the next callbacks of the loop
            await asyncio.sleep(0)
        assert len(connection._record) == 8_005, "nothing was passed to OpenSSL"
        writer.close()

    run(scenario)

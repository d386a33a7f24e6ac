"""One connection over a real socket, with a handler the test controls."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import structlog

from ottla.base.errors import RemoteProtocolError
from ottla.base.sends import SENDS_MAX
from ottla.broker.net.connection import Connection
from ottla.broker.net.edge import Edge
from ottla.broker.net.limits import Limits
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.outbox import PendingResponse
from ottla.broker.net.server import Server, listening_socket

PRODUCE, OTHER = b"\x00\x00", b"\x00\x03"
TIMEOUT_S = 10


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Handler:
    """Notes every frame; answers at once with the frame itself, or keeps a place for later."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.later = False
        self.weight = 0
        self.waiting: list[tuple[Connection, PendingResponse, bytes]] = []
        self.connections: list[Connection] = []
        self.arrived = asyncio.Event()

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        payload = bytes(frame)
        self.taken.append(payload)
        self.connections.append(connection)
        self.arrived.set()
        if payload.endswith(b"bad"):
            raise RemoteProtocolError("bad")
        if payload.endswith(b"bug"):
            raise ZeroDivisionError
        if not self.later:
            connection.respond((framed(payload),))
            return
        answer = PendingResponse(self.weight)
        connection.reserve(answer, exclusive=not payload.startswith(PRODUCE))
        self.waiting.append((connection, answer, payload))

    def finish(self, index: int = 0) -> None:
        connection, answer, payload = self.waiting.pop(index)
        connection.complete(answer, (framed(payload),))

    async def until_taken(self, count: int) -> None:
        while len(self.taken) < count:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), TIMEOUT_S)


class RecordedSends:
    """Sends one message after the other; each accepts `limit` bytes at most, none if it is 0."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []
        self.limit = 1 << 20

    def send(self, descriptors: list[int], messages: list[bytes | memoryview]) -> list[int]:
        self.calls.append([bytes(message) for message in messages])
        if not self.limit:
            return [-errno.EAGAIN] * len(messages)
        return [
            os.write(descriptor, bytes(message)[: self.limit])
            for descriptor, message in zip(descriptors, messages, strict=True)
        ]


class Setup:
    def __init__(self, limits: Limits | None = None) -> None:
        self.handler = Handler()
        self.sends = RecordedSends()
        loop = asyncio.get_running_loop()
        handlers = dict.fromkeys(ListenerType, self.handler)
        self.edge = Edge(loop, limits or Limits(), handlers, structlog.get_logger(), sends=self.sends)
        self.server = Server(self.edge, listening_socket)
        (listener,) = self.server.bind([Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)])
        self.server.serve()
        self.port = listener.port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def running(limits: Limits | None = None) -> AsyncIterator[Setup]:
    setup = Setup(limits)
    try:
        yield setup
    finally:
        setup.server.stop(lambda: None)
        setup.server.abort()


def run(scenario: Callable[[Setup], Awaitable[None]], limits: Limits | None = None) -> None:
    async def body() -> None:
        async with running(limits) as setup:
            await asyncio.wait_for(scenario(setup), 2 * TIMEOUT_S)

    asyncio.run(body())


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def closes(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
    except ConnectionError:
        return True


def test_responses_to_pipelined_requests_are_in_order() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        payloads = [OTHER + b"%d" % number for number in range(500)]
        writer.write(b"".join(map(framed, payloads)))
        assert [await read_frame(reader) for _ in payloads] == payloads
        writer.close()

    run(scenario)


def test_produce_follows_pending_produce_and_responses_are_in_order() -> None:
    async def scenario(setup: Setup) -> None:
        setup.handler.later = True
        reader, writer = await setup.connect()
        writer.write(b"".join(framed(PRODUCE + name) for name in (b"a", b"b", b"c")))
        await setup.handler.until_taken(3)
        setup.handler.finish(2)
        setup.handler.finish(1)
        setup.handler.finish(0)
        assert [await read_frame(reader) for _ in range(3)] == [PRODUCE + n for n in (b"a", b"b", b"c")]
        writer.close()

    run(scenario)


@pytest.mark.parametrize("together", [True, False])
def test_a_waiting_request_is_notified_of_the_next_one(together: bool) -> None:
    async def scenario(setup: Setup) -> None:
        setup.handler.later = True
        reader, writer = await setup.connect()
        writer.write(framed(OTHER + b"a") + (framed(OTHER + b"b") if together else b""))
        await setup.handler.until_taken(1)
        notified = asyncio.Event()
        setup.handler.connections[0].watch_next_request(notified.set)
        assert notified.is_set() == together
        if not together:
            writer.write(framed(OTHER + b"b"))
        await asyncio.wait_for(notified.wait(), TIMEOUT_S)
        assert setup.handler.taken == [OTHER + b"a"]
        setup.handler.finish()
        assert await read_frame(reader) == OTHER + b"a"
        await setup.handler.until_taken(2)
        writer.close()

    run(scenario)


def test_another_request_waits_until_earlier_ones_are_completed() -> None:
    async def scenario(setup: Setup) -> None:
        setup.handler.later = True
        reader, writer = await setup.connect()
        writer.write(framed(PRODUCE + b"a") + framed(OTHER + b"b") + framed(PRODUCE + b"c"))
        await setup.handler.until_taken(1)
        # A second connection's round trip proves that the loop has looked at the first one's bytes.
        setup.handler.later = False
        other_reader, other_writer = await setup.connect()
        other_writer.write(framed(OTHER + b"x"))
        await read_frame(other_reader)
        assert setup.handler.taken == [PRODUCE + b"a", OTHER + b"x"]
        setup.handler.later = True
        setup.handler.finish()
        await setup.handler.until_taken(3)
        assert setup.handler.taken[2:] == [OTHER + b"b"]
        setup.handler.finish()
        await setup.handler.until_taken(4)
        setup.handler.finish()
        assert [await read_frame(reader) for _ in range(3)] == [PRODUCE + b"a", OTHER + b"b", PRODUCE + b"c"]
        writer.close()
        other_writer.close()

    run(scenario)


def test_a_bad_request_closes_its_connection_and_no_other() -> None:
    async def scenario(setup: Setup) -> None:
        good_reader, good_writer = await setup.connect()
        for ending in (b"bad", b"bug"):
            reader, writer = await setup.connect()
            writer.write(framed(OTHER + ending))
            assert await closes(reader)
            writer.close()
        good_writer.write(framed(OTHER + b"fine"))
        assert await read_frame(good_reader) == OTHER + b"fine"
        good_writer.close()

    run(scenario)


def test_a_frame_above_the_limit_closes_the_connection() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        writer.write(struct.pack(">i", 200_001))
        assert await closes(reader)
        writer.close()

    run(scenario, Limits(frame_bytes_max=200_000))


def test_large_frames_arrive_whole_and_in_order() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        payloads = [OTHER + bytes([number]) * (100_000 * number) for number in range(6)]
        writer.write(b"".join(map(framed, payloads)))
        assert [await read_frame(reader) for _ in payloads] == payloads
        assert setup.edge.occupied_bytes == 0
        writer.close()

    run(scenario)


def test_a_client_that_does_not_read_is_not_served_further_and_then_closed() -> None:
    async def scenario(setup: Setup) -> None:
        sock = socket.create_connection(("127.0.0.1", setup.port))
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        payload = framed(OTHER + b"z" * 60_000)
        sent = 0

        async def pour() -> None:
            nonlocal sent
            while True:
                await loop.sock_sendall(sock, payload)
                sent += 1

        pouring = asyncio.ensure_future(pour())
        await setup.handler.until_taken(1)
        connection = setup.handler.connections[0]
        taken = -1
        while taken != len(setup.handler.taken):  # until it is muted
            taken = len(setup.handler.taken)
            await asyncio.wait({pouring}, timeout=0.3)
        pouring.cancel()
        assert taken < 2000
        connection.check(loop.time() + 59)
        assert not connection.closed
        connection.check(loop.time() + 61)
        assert connection.closed
        sock.close()

    run(scenario)


def test_an_idle_connection_and_a_dribbling_one_are_closed_but_a_waiting_one_is_not() -> None:
    async def scenario(setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        handler = setup.handler
        reader, writer = await setup.connect()
        writer.write(framed(OTHER + b"hello"))
        await read_frame(reader)
        idle = handler.connections[0]
        now = loop.time()
        idle.check(now)
        idle.check(now + 599)
        assert not idle.closed
        idle.check(now + 601)
        assert idle.closed
        slow_reader, slow_writer = await setup.connect()
        slow_writer.write(framed(OTHER + b"hi") + struct.pack(">i", 5000) + b"dribble")
        await read_frame(slow_reader)
        slow = handler.connections[1]
        slow.check(now := loop.time())
        slow.check(now + 12)
        assert slow.closed
        handler.later = True
        wait_reader, wait_writer = await setup.connect()
        wait_writer.write(framed(OTHER + b"poll"))
        await handler.until_taken(3)
        waiting = handler.connections[2]
        waiting.check(now := loop.time())
        waiting.check(now + 10_000)
        assert not waiting.closed
        handler.finish()
        assert await read_frame(wait_reader) == OTHER + b"poll"
        for each in (writer, slow_writer, wait_writer):
            each.close()

    run(scenario)


@pytest.mark.parametrize("limit", [1 << 20, 3, 0])
def test_small_responses_of_one_iteration_are_sent_together(limit: int) -> None:
    async def scenario(setup: Setup) -> None:
        handler = setup.handler
        handler.later = True
        setup.sends.limit = limit
        streams = [await setup.connect() for _ in range(SENDS_MAX + 3)]
        for index, (_, writer) in enumerate(streams):
            writer.write(framed(PRODUCE + b"first of %d" % index) + framed(PRODUCE + b"second of %d" % index))
            await handler.until_taken(2 * index + 2)
        while handler.waiting:
            handler.finish()
        for index, (reader, writer) in enumerate(streams):
            assert await read_frame(reader) == PRODUCE + b"first of %d" % index
            assert await read_frame(reader) == PRODUCE + b"second of %d" % index
            writer.close()
        assert [len(messages) for messages in setup.sends.calls] == [SENDS_MAX, 3]

    run(scenario)


def test_large_responses_and_those_of_closed_connections_are_not_sent_together() -> None:
    async def scenario(setup: Setup) -> None:
        handler = setup.handler
        handler.later = True
        streams = [await setup.connect() for _ in range(4)]
        for index, payload in enumerate((b"x" * 20_000, b"one", b"closed", b"two")):
            streams[index][1].write(framed(PRODUCE + payload))
            await handler.until_taken(index + 1)
        closed = handler.connections[2]
        while handler.waiting:
            handler.finish()
        closed.close()
        assert await read_frame(streams[0][0]) == PRODUCE + b"x" * 20_000
        assert await read_frame(streams[1][0]) == PRODUCE + b"one"
        assert await read_frame(streams[3][0]) == PRODUCE + b"two"
        assert setup.sends.calls == [[framed(PRODUCE + b"one"), framed(PRODUCE + b"two")]]
        for _, writer in streams:
            writer.close()

    run(scenario)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds."""
    while not condition():
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.005)


def test_a_large_frame_is_waited_for_but_what_a_slow_client_has_sent_is_counted() -> None:
    limits = Limits(frame_start_seconds_max=10, frame_bytes_per_second_min=1000)

    async def scenario(setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        reader, writer = await setup.connect()
        large = framed(OTHER + b"x" * 400_000)
        writer.write(framed(OTHER + b"hi"))
        await read_frame(reader)
        connection = setup.handler.connections[0]
        writer.write(large[:150_000])
        await until(lambda: connection._frame_bytes == 150_000)
        assert connection._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) > 50_000
        writer.write(large[150_000:200_000])
        connection.check(now := loop.time())
        await until(lambda: connection._frame_bytes == 200_000)
        connection.check(now + 10 + 199)
        assert not connection.closed
        writer.write(large[200_000:])
        assert await read_frame(reader) == large[4:]
        assert connection._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        writer.close()

    run(scenario, limits)


def test_one_connection_reads_and_the_others_wait_while_memory_is_exhausted() -> None:
    async def scenario(setup: Setup) -> None:
        handler = setup.handler
        handler.later = True
        handler.weight = 800
        reader, writer = await setup.connect()
        writer.write(framed(PRODUCE + b"a") + framed(PRODUCE + b"b"))
        await handler.until_taken(2)
        assert setup.edge.exhausted
        _, slow_writer = await setup.connect()
        slow_writer.write(framed(OTHER + b"unfinished")[:-1])
        await until(lambda: any(one._reader.in_frame for one in setup.edge.connections))
        other_reader, other_writer = await setup.connect()
        other_writer.write(framed(OTHER + b"later"))
        await until(lambda: bool(setup.edge.blocked))
        assert len(handler.taken) == 2
        handler.finish()
        handler.finish()
        await handler.until_taken(3)
        handler.finish()
        assert await read_frame(reader) == PRODUCE + b"a"
        assert await read_frame(other_reader) == OTHER + b"later"
        assert not setup.edge.exhausted
        for each in (writer, slow_writer, other_writer):
            each.close()

    run(scenario, Limits(in_flight_bytes_max=1000, frame_bytes_max=100))


def test_connections_above_the_limit_are_refused_until_one_closes() -> None:
    async def scenario(setup: Setup) -> None:
        reader, writer = await setup.connect()
        writer.write(framed(OTHER + b"in"))
        await read_frame(reader)
        refused_reader, refused_writer = await setup.connect()
        assert await closes(refused_reader)
        setup.handler.connections[0].close()
        next_reader, next_writer = await setup.connect()
        next_writer.write(framed(OTHER + b"in"))
        assert await read_frame(next_reader) == OTHER + b"in"
        for each in (writer, refused_writer, next_writer):
            each.close()

    run(scenario, Limits(connections_max=1))


def test_a_stop_completes_pending_requests_first() -> None:
    async def scenario(setup: Setup) -> None:
        setup.handler.later = True
        reader, writer = await setup.connect()
        writer.write(framed(PRODUCE + b"a"))
        await setup.handler.until_taken(1)
        drained = asyncio.Event()
        setup.server.stop(drained.set)
        assert not drained.is_set()
        setup.handler.finish()
        assert await read_frame(reader) == PRODUCE + b"a"
        assert await closes(reader)
        await asyncio.wait_for(drained.wait(), TIMEOUT_S)
        writer.close()

    run(scenario)


def test_a_response_to_a_closed_connection_is_dropped_and_its_memory_released() -> None:
    async def scenario(setup: Setup) -> None:
        setup.handler.later = True
        setup.handler.weight = 100
        _, writer = await setup.connect()
        writer.write(framed(PRODUCE + b"a"))
        await setup.handler.until_taken(1)
        setup.handler.connections[0].close()
        assert setup.edge.occupied_bytes == 0
        setup.handler.finish()
        assert setup.edge.occupied_bytes == 0
        writer.close()

    run(scenario)


@pytest.mark.parametrize(
    ("limits", "weight"),
    [(Limits(connection_pending_max=3), 0), (Limits(connection_in_flight_bytes_max=25), 10)],
    ids=["requests", "bytes"],
)
def test_a_connection_with_too_much_in_flight_is_not_read(limits: Limits, weight: int) -> None:
    """Three requests are taken; each response admits one more."""

    async def scenario(setup: Setup) -> None:
        handler = setup.handler
        payloads = [PRODUCE + b"%d" % number for number in range(8)]
        handler.later, handler.weight = True, weight
        reader, writer = await setup.connect()
        writer.write(b"".join(map(framed, payloads)))
        await handler.until_taken(3)
        for taken in range(3, len(payloads) + 1):
            # The round trip of a second connection proves that the loop has looked at the first one's bytes.
            handler.later = False
            other_reader, other_writer = await setup.connect()
            other_writer.write(framed(OTHER))
            await read_frame(other_reader)
            other_writer.close()
            handler.later = True
            assert [frame for frame in handler.taken if frame != OTHER] == payloads[:taken]
            handler.finish()
            assert await read_frame(reader) == payloads[taken - 3]
            if taken < len(payloads):
                await handler.until_taken(taken + 1 + taken - 2)
        writer.close()

    run(scenario, limits)

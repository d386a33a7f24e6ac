"""A transport over real sockets: large sends, the end of the stream, failures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from ottla.peer.transport import SocketTransport

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def no_failure(error: OSError) -> None:
    raise AssertionError(error)


@pytest.mark.parametrize("sizes", [[3], [3, 0, 5], [100_000, 7], [3_000_000], [1] * 2000, [50_000] * 100])
def test_buffers_arrive_in_order(pair: Pair, sizes: list[int]) -> None:
    buffers = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    expected = b"".join(buffers) * 2

    async def scenario() -> bytes:
        loop = asyncio.get_running_loop()
        transport = SocketTransport(loop, pair[0])
        transport.start(lambda: None, no_failure)
        transport.send(buffers)
        transport.send(buffers)
        pair[1].setblocking(False)
        received = bytearray()
        while len(received) < len(expected):
            received += await loop.sock_recv(pair[1], 1 << 16)
        transport.close()
        return bytes(received)

    assert asyncio.run(scenario()) == expected


def test_bytes_and_the_end_of_the_stream_are_received(pair: Pair) -> None:
    async def scenario() -> list[bytes]:
        loop = asyncio.get_running_loop()
        transport = SocketTransport(loop, pair[0])
        with pytest.raises(BlockingIOError):
            transport.receive_into(memoryview(bytearray(10)))
        pieces: list[bytes] = []
        ended = asyncio.Event()

        def readable() -> None:
            target = bytearray(10)
            count = transport.receive_into(memoryview(target))
            pieces.append(bytes(target[:count]))
            if not count:
                transport.close()
                ended.set()

        transport.start(readable, no_failure)
        pair[1].sendall(b"abc")
        pair[1].close()
        await ended.wait()
        return pieces

    assert asyncio.run(scenario()) == [b"abc", b""]


def test_a_failure_to_send_is_reported_later(pair: Pair) -> None:
    async def scenario() -> OSError:
        loop = asyncio.get_running_loop()
        transport = SocketTransport(loop, pair[0])
        failed: asyncio.Future[OSError] = loop.create_future()
        transport.start(lambda: None, failed.set_result)
        pair[1].close()
        transport.send([b"x"])
        assert not failed.done()
        error = await failed
        transport.close()
        transport.send([b"y"])
        return error

    assert isinstance(asyncio.run(scenario()), BrokenPipeError)


def test_a_closed_transport_calls_nothing(pair: Pair) -> None:
    async def scenario() -> list[object]:
        loop = asyncio.get_running_loop()
        transport = SocketTransport(loop, pair[0])
        calls: list[object] = []
        transport.start(lambda: calls.append("readable"), calls.append)
        pair[1].close()
        transport.send([b"x"])
        transport.close()
        transport.close()
        done = loop.create_future()
        loop.call_soon(lambda: loop.call_soon(done.set_result, None))
        await done
        return calls

    assert asyncio.run(scenario()) == []

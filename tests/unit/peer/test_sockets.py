"""Outbound connections of the operating system: connected, refused, unknown names, cancelled."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.peer.sockets import SocketConnector


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


def port_without_listener() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


async def connect(host: str, port: int) -> tuple[socket.socket | None, OSError | None]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    SocketConnector(loop)(host, port, lambda sock, error: done.set_result((sock, error)))
    assert not done.done(), "on_done is never called within the call"
    return await done  # type: ignore[no-any-return]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_connected_socket_does_not_block_or_delay(listener: socket.socket, host: str) -> None:
    sock, error = asyncio.run(connect(host, listener.getsockname()[1]))
    assert error is None
    assert sock is not None
    with sock:
        assert sock.getblocking() is False
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getpeername() == listener.getsockname()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_without_listener_refuses(host: str) -> None:
    sock, error = asyncio.run(connect(host, port_without_listener()))
    assert sock is None
    assert isinstance(error, ConnectionRefusedError)


def test_an_unknown_name_is_an_error_but_no_refusal() -> None:
    sock, error = asyncio.run(connect("no-such-host.invalid", 9092))
    assert sock is None
    assert isinstance(error, OSError)
    assert not isinstance(error, ConnectionRefusedError)


def test_a_cancelled_attempt_calls_nothing(listener: socket.socket) -> None:
    async def scenario() -> list[object]:
        loop = asyncio.get_running_loop()
        calls: list[object] = []
        cancel = SocketConnector(loop)(
            "127.0.0.1", listener.getsockname()[1], lambda *done: calls.append(done)
        )
        cancel()
        # A second attempt is complete later than the first one would have been.
        other = asyncio.Event()
        sockets: list[socket.socket | None] = []
        SocketConnector(loop)(
            "127.0.0.1", listener.getsockname()[1], lambda sock, _: (sockets.append(sock), other.set())
        )
        await other.wait()
        assert sockets[0] is not None
        sockets[0].close()
        return calls

    assert asyncio.run(scenario()) == []

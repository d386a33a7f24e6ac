"""The event loop is notified when the bytes of the mark have arrived."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
from collections.abc import Iterator

import pytest

from ottla.base.low_water_mark import MARK_BYTES_MAX, LowWaterMark
from tests.support.waiting import wait_until


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    with sender, receiver:
        yield sender, receiver


def arrived(receiver: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(receiver, termios.FIONREAD, b"\0" * 4))[0])


def is_readable(receiver: socket.socket, seconds: float = 0) -> bool:
    return receiver in select.select([receiver], [], [], seconds)[0]


def test_a_socket_is_readable_when_the_bytes_of_its_mark_have_arrived(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sender, receiver = pair
    mark = LowWaterMark(receiver)
    mark.set(1000)
    sender.sendall(b"x" * 999)
    wait_until(lambda: arrived(receiver) == 999, "the bytes")
    assert not is_readable(receiver)
    sender.sendall(b"x")
    assert is_readable(receiver, 10)
    mark.set(2000)
    assert not is_readable(receiver)
    mark.set(1)
    assert is_readable(receiver)


def test_the_end_of_the_connection_is_reported_below_the_mark(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sender, receiver = pair
    LowWaterMark(receiver).set(1000)
    sender.sendall(b"x")
    sender.close()
    assert is_readable(receiver, 10)


def test_a_mark_is_limited(pair: tuple[socket.socket, socket.socket]) -> None:
    _, receiver = pair
    LowWaterMark(receiver).set(50 * MARK_BYTES_MAX)
    assert 1 < receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) <= MARK_BYTES_MAX

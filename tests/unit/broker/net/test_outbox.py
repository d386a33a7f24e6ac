"""Answers leave in the order of their requests, whatever order they are finished in."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ottla.broker.net.outbox import Outbox, PendingResponse


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(5)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_response_waits_for_earlier_ones(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    outbox = Outbox(ours)
    first, second = PendingResponse(), PendingResponse()
    outbox.add(first)
    outbox.add(second)
    second.buffers = (b"second",)
    outbox.send()
    first.buffers = (b"fi", memoryview(b"rst "))
    outbox.send()
    assert theirs.recv(100) == b"first second"
    assert outbox.empty


def test_bytes_that_the_kernel_does_not_accept_are_sent_later(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    outbox = Outbox(ours)
    parts = [bytes([number % 256]) * 9_973 for number in range(2_000)]
    sent: list[str] = []
    for number, part in enumerate(parts):
        answer = PendingResponse()
        answer.buffers = (part, b"|")
        answer.on_sent = lambda number=number: sent.append(f"{number}")  # type: ignore[misc]
        outbox.add(answer)
    outbox.send()
    assert outbox.blocked
    assert sent == []
    expected = b"".join(part + b"|" for part in parts)
    received = bytearray()
    while len(received) < len(expected):
        received += theirs.recv(1 << 20)
        outbox.send()
    assert received == expected
    assert not outbox.blocked
    assert len(sent) == len(parts)


def test_closing_gives_back_what_was_never_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    outbox = Outbox(pair[0])
    given_back = []
    answer = PendingResponse()
    answer.on_sent = lambda: given_back.append("buffer")
    outbox.add(answer)
    outbox.close()
    assert given_back == ["buffer"]

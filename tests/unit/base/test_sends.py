"""Several sends in one system call have the results of single sends."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import pytest

from ottla.base import native
from ottla.base.sends import SENDS_MAX, Sends, make_sends

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def sends() -> Iterator[Sends]:
    made = make_sends()
    if made is None:
        pytest.skip("the kernel does not allow io_uring, or the sender is not compiled")
    yield made
    made.close()


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    made: list[Pair] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(SENDS_MAX):
            receiver = socket.create_connection(listener.getsockname(), timeout=10)
            sender, _ = listener.accept()
            sender.setblocking(False)
            made.append((sender, receiver))
    yield made
    for sender, receiver in made:
        sender.close()
        receiver.close()


def test_every_socket_receives_its_message(sends: Sends, pairs: list[Pair]) -> None:
    for turn in range(100):  # more entries than the ring has
        messages: list[bytes | memoryview] = [b"%d of %d" % (turn, index) for index in range(SENDS_MAX)]
        messages[0] = memoryview(messages[0])
        counts = sends.send([sender.fileno() for sender, _ in pairs], messages)
        assert counts == [len(message) for message in messages]
        for (_, receiver), message in zip(pairs, messages, strict=True):
            assert receiver.recv(100) == message


def test_a_full_socket_and_a_closed_one_do_not_disturb_the_others(sends: Sends, pairs: list[Pair]) -> None:
    (full, _), (broken, _), (good, receiver) = pairs[:3]
    large = b"x" * 20_000_000
    (accepted,) = sends.send([full.fileno()], [large])
    assert 0 < accepted < len(large)
    while sends.send([full.fileno()], [large]) != [-errno.EAGAIN]:
        pass
    broken.shutdown(socket.SHUT_WR)
    counts = sends.send([full.fileno(), broken.fileno(), good.fileno()], [b"a", b"b", b"good"])
    assert counts == [-errno.EAGAIN, -errno.EPIPE, 4]
    assert receiver.recv(100) == b"good"
    assert sends.send([good.fileno()], [b"again"]) == [5]
    assert receiver.recv(100) == b"again"


def test_too_many_messages_are_refused(sends: Sends) -> None:
    with pytest.raises(ValueError, match="at most 16"):
        sends.send([1] * (SENDS_MAX + 1), [b""] * (SENDS_MAX + 1))
    with pytest.raises(ValueError, match="2 descriptors for 1 messages"):
        sends.send([1, 2], [b""])
    with pytest.raises(TypeError):
        sends.send([1], ["no bytes"])  # type: ignore[list-item]


def test_no_message_is_sent_after_one_that_is_not_bytes(sends: Sends, pairs: list[Pair]) -> None:
    descriptors = [sender.fileno() for sender, _ in pairs[:2]]
    with pytest.raises(TypeError):
        sends.send(descriptors, [b"first", "no bytes"])  # type: ignore[list-item]
    assert sends.send(descriptors, [b"1", b"2"]) == [1, 1]
    assert [receiver.recv(100) for _, receiver in pairs[:2]] == [b"1", b"2"]


def test_plain_python_sends_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "WANTED", False)
    assert make_sends() is None

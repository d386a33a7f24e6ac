"""Parts of files on their way to a socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ottla.base.files import OsDisk
from ottla.broker.net.file_region import FileRegion, cached
from ottla.broker.net.outbox import Outbox, PendingResponse

CONTENT = os.urandom(300_000)


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "segment"
    made.write_bytes(CONTENT)
    return str(made)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_regions_and_bytes_arrive_in_order_after_the_file_is_deleted(path: str) -> None:
    file = OsDisk().open(path)
    region = FileRegion(file, 1000, 200_000)
    file.close()
    OsDisk().remove(path)
    ours, theirs = socket.socketpair()
    theirs.settimeout(20)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    ours.setblocking(False)
    outbox = Outbox(ours)
    answer = PendingResponse()
    answer.buffers = (b"before", region, b"after")
    outbox.add(answer)
    expected = b"before" + CONTENT[1000:201_000] + b"after"
    got = b""
    while len(got) < len(expected):
        outbox.send()
        got += theirs.recv(1 << 20)
    outbox.send()

    assert got == expected
    assert outbox.empty
    ours.close()
    theirs.close()


def test_an_unsent_region_gives_its_descriptor_back(path: str) -> None:
    file = OsDisk().open(path)
    before = open_descriptors()
    ours, theirs = socket.socketpair()
    outbox = Outbox(ours)
    answer = PendingResponse()
    answer.buffers = (FileRegion(file, 0, 10),)
    outbox.add(answer)
    assert open_descriptors() == before + 3
    del answer

    outbox.close()

    assert open_descriptors() == before + 2
    ours.close()
    theirs.close()
    file.close()


def test_a_file_that_was_cut_is_an_error_not_a_loop(path: str) -> None:
    file = OsDisk().open(path)
    region = FileRegion(file, 299_000, 5000)
    file.truncate(299_000)
    ours, theirs = socket.socketpair()

    with pytest.raises(OSError, match="shorter than its log"):
        region.send(ours)
    region.close()
    file.close()
    ours.close()
    theirs.close()


def test_what_was_just_written_is_cached_and_what_does_not_exist_is_not(path: str) -> None:
    file = OsDisk().open(path)
    assert cached(file, 0, len(CONTENT))
    assert not cached(file, len(CONTENT) - 10, 100)
    file.close()

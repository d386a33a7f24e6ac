"""Frames from a stream that is split anywhere."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import RemoteProtocolError
from ottla.wire.frame_reader import LARGE_FRAME_BYTES, FrameReader

FRAME_MAX = 1 << 20


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Feed:
    """Plays the socket: fills what `target` offers, takes every complete frame, parks the rest."""

    def __init__(self) -> None:
        self.held = 0
        self.most_held = 0
        self.shared = memoryview(bytearray(2 * LARGE_FRAME_BYTES))
        self.reader = FrameReader(FRAME_MAX, self.hold)
        self.frames: list[bytes] = []

    def hold(self, count: int) -> None:
        self.held += count
        self.most_held = max(self.most_held, self.held)

    def __call__(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            target = self.reader.target(self.shared)
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            self.reader.received(count)
            while (frame := self.reader.peek()) is not None:
                self.reader.drop(frame)
                self.frames.append(bytes(frame))
            self.reader.park()
            self.shared[:] = b"\xee" * len(self.shared)  # another connection uses it now


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_frames_are_read_however_the_stream_is_split(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, payloads))
    feed = Feed()
    position = 0
    for cut in cuts:
        feed(stream[position : position + cut])
        position += cut
    feed(stream[position:])
    assert feed.frames == payloads
    assert not feed.reader.in_frame


@pytest.mark.parametrize("size", [LARGE_FRAME_BYTES, LARGE_FRAME_BYTES + 1, 3 * LARGE_FRAME_BYTES, FRAME_MAX])
def test_large_frames_between_small_ones(size: int) -> None:
    payloads = [b"small", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"", b"after"]
    feed = Feed()
    feed(b"".join(map(framed, payloads)))
    assert feed.frames == payloads
    assert feed.held == 0


def test_a_large_frame_has_separate_memory() -> None:
    payload = b"y" * (LARGE_FRAME_BYTES + 10)
    feed = Feed()
    data = memoryview(framed(payload))
    while (frame := feed.reader.peek()) is None:
        target = feed.reader.target(feed.shared)
        count = min(len(target), len(data))
        target[:count] = data[:count]
        feed.reader.received(count)
        data = data[count:]
    feed.reader.drop(frame)
    feed.shared[:] = b"\0" * len(feed.shared)
    assert bytes(frame) == payload


def test_a_large_frame_allocates_at_most_four_times_the_received_bytes() -> None:
    feed = Feed()
    sent = 2000
    feed(struct.pack(">i", FRAME_MAX) + b"z" * sent)
    assert feed.most_held <= 4 * max(sent, 1024)
    assert feed.reader.in_large_frame
    feed.reader.close()
    assert feed.held == 0


def test_memory_of_earlier_large_frames_is_allocated_at_once() -> None:
    feed = Feed()
    feed(framed(b"a" * 500_000))
    feed(struct.pack(">i", 500_000) + b"b")
    assert feed.held == 500_000


def test_after_a_large_frame_the_next_one_is_received_without_a_copy() -> None:
    feed = Feed()
    assert len(feed.reader.target(feed.shared)) == len(feed.shared)
    feed(framed(b"a" * 500_000))
    first = feed.reader.target(feed.shared)
    assert len(first) == 4096
    first[:] = framed(b"b" * 500_000)[:4096]
    feed.reader.received(4096)
    assert feed.reader.peek() is None
    feed.reader.park()
    assert len(feed.reader.target(feed.shared)) == feed.reader.expected == 500_004 - 4096
    feed(b"b" * (500_004 - 4096))
    feed(framed(b"small"))
    assert feed.frames == [b"a" * 500_000, b"b" * 500_000, b"small"]
    assert len(feed.reader.target(feed.shared)) == len(feed.shared)


def test_the_bulk_path_takes_small_frames_after_a_large_one() -> None:
    feed = Feed()
    feed(framed(b"a" * 500_000))
    target = feed.reader.target(feed.shared)
    target[:9] = framed(b"small")
    feed.reader.received(9)
    _, _, end = feed.reader.received_frames()
    feed.reader.advance(end)
    assert len(feed.reader.target(feed.shared)) == len(feed.shared)


def test_only_the_bytes_of_a_large_frame_are_waited_for() -> None:
    feed = Feed()
    assert feed.reader.expected == 1
    feed(framed(b"small")[:6])
    assert feed.reader.expected == 1  # the rest of a small frame and the next frame may arrive together
    feed(framed(b"small")[6:])
    feed(framed(b"a" * 500_000)[:200_000])
    assert feed.reader.expected == len(feed.reader.target(feed.shared))
    target = feed.reader.target(feed.shared)
    feed.reader.received(len(target))
    assert feed.reader.peek() is not None
    assert feed.reader.expected == 1  # complete, but not taken yet


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_MAX + 1, 2**31 - 1, 0x47455420])
def test_invalid_sizes_are_rejected(size: int) -> None:
    feed = Feed()
    with pytest.raises(RemoteProtocolError, match="frame of"):
        feed(struct.pack(">i", size))

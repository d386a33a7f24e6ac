"""A scrape is written in slices, between which the event loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

from ottla.broker.metrics.server import MetricsServer, Scrape


class FakeLoop:
    """A loop in which the time passes with the pieces that are written."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.pauses_s: list[float] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.pauses_s.append(delay_s)
        self.soon.append(callback)


class FakeTransport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


def scrape_of(loop: FakeLoop, transport: FakeTransport, pieces: int) -> Scrape:
    def write() -> Iterator[str]:
        for number in range(pieces):
            loop.now += 0.0002
            yield f"{number}\n"

    async def prepare() -> None:
        """Nothing to collect."""

    server = MetricsServer(cast("asyncio.AbstractEventLoop", loop), prepare, write)
    scrape = Scrape(server)
    scrape._transport = cast("asyncio.Transport", transport)
    scrape._pieces = server.write()
    return scrape


def test_the_text_is_written_in_slices() -> None:
    loop, transport = FakeLoop(), FakeTransport()
    scrape_of(loop, transport, 10)._write_slice()
    slices = [loop.now]
    while loop.soon:
        before = loop.now
        loop.soon.pop()()
        slices.append(loop.now - before)
    assert max(slices) < 0.001
    assert len(slices) > 3
    assert min(loop.pauses_s) > 0, "others are served between slices, and not only those that wait already"
    assert b"".join(transport.written) == b"".join(b"%d\n" % number for number in range(10))
    assert transport.closed


def test_a_client_that_does_not_read_stops_the_writing() -> None:
    loop, transport = FakeLoop(), FakeTransport()
    scrape = scrape_of(loop, transport, 10)
    scrape.pause_writing()
    scrape._write_slice()
    assert transport.written == []
    scrape.resume_writing()
    while loop.soon:
        loop.soon.pop()()
    assert transport.closed

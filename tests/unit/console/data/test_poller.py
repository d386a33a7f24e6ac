"""The poller: one for all pages, and stopped when no page watches."""

from __future__ import annotations

import asyncio
from itertools import chain, repeat

from ottla.console.data.poller import Poller
from ottla.console.data.snapshot import Snapshot


class Source:
    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> Snapshot:
        self.taken += 1
        return Snapshot(version=self.taken)


def test_pages_share_snapshots_and_the_last_one_stops_the_poller() -> None:
    source = Source()

    async def run() -> None:
        poller = Poller(source.take, interval_s=0.001)
        async with poller.watching():
            first = await poller.newer_than(0)
            async with poller.watching():
                assert (await poller.newer_than(first.version)).version > first.version
            assert poller.running
            await poller.newer_than(poller.snapshot.version)
        assert not poller.running
        assert poller.snapshot.version == source.taken

    asyncio.run(run())


def test_a_page_without_a_stream_takes_a_snapshot_only_if_the_last_one_is_old() -> None:
    source = Source()

    async def run() -> None:
        poller = Poller(source.take)
        assert (await poller.current()).version == 1
        assert (await poller.current()).version == 1
        await poller.poke()
        assert (await poller.current()).version == 2
        assert not poller.running

    asyncio.run(run())


def test_requests_at_the_same_time_take_one_snapshot() -> None:
    source = Source()

    async def run() -> None:
        poller = Poller(source.take)
        await asyncio.gather(*(poller.current() for _ in range(10)))

    asyncio.run(run())
    assert source.taken == 1


def test_a_snapshot_that_fails_does_not_stop_the_poller() -> None:
    taken = chain([Snapshot(version=1), None], repeat(Snapshot(version=2)))

    def take() -> Snapshot:
        found = next(taken)
        if found is None:
            raise RuntimeError("a bug")
        return found

    async def run() -> None:
        poller = Poller(take, interval_s=0.001)
        async with poller.watching():
            assert (await poller.newer_than(1)).version == 2

    asyncio.run(run())

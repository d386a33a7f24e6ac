"""Commits and fetches offsets without being a member of anything, as consumers do that assign for themselves."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.testing.sim.actors.actor import GROUP, RETRIABLE, Actor
from ottla.testing.sim.client import Unanswered
from ottla.testing.sim.offsets_ledger import Commit, Slot
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

E = ErrorCode


class Committer(Actor):
    """The only one in its group: offsets grow by one with every commit."""

    topic = "in"

    async def live(self) -> None:
        await self.find_coordinator(GROUP, self.who)
        number = 0
        # A former life may have left commits on their way: a late one must not look like one of this life.
        slot = Slot(f"{self.who}-{self.life}", self.world.places(self.topic)[0])
        while not self.world.closing:
            number += 1
            try:
                await self._commit(slot, number)
                await self._fetch(slot)
            except Unanswered:
                await self.process.backoff()
            await self.process.sleep(self.rng.uniform(50, 1000))

    async def _commit(self, slot: Slot, offset: int) -> None:
        name = f"{self.name}#{offset}"
        self.world.offsets.asked(name, Commit(slot, offset, "", -1))
        partition = OffsetCommitRequestPartition(
            partition_index=slot.place.partition, committed_offset=offset, committed_metadata=name
        )
        topic = OffsetCommitRequestTopic(name=slot.place.topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=slot.group, topics=[topic])
        try:
            answer = await self.wire.ask(request, self.rng.choice((2, 5, 9)), OffsetCommitResponse)
        except Unanswered:
            self.world.offsets.given_up(name)
            raise
        code = answer.topics[0].partitions[0].error_code
        if self.expect(code, E.NONE, RETRIABLE, doing="OffsetCommit") is E.NONE:
            self.world.offsets.acknowledged(name)
        else:
            self.world.offsets.given_up(name)

    async def _fetch(self, slot: Slot) -> None:
        sent_us = self.kernel.now_us
        topic = OffsetFetchRequestTopic(name=slot.place.topic, partition_indexes=[slot.place.partition])
        request = OffsetFetchRequest(group_id=slot.group, topics=[topic])
        answer = await self.wire.ask(request, 5, OffsetFetchResponse)
        if self.expect(answer.error_code, E.NONE, RETRIABLE, doing="OffsetFetch") is E.NONE:
            result = answer.topics[0].partitions[0]
            if self.expect(result.error_code, E.NONE, RETRIABLE, doing="OffsetFetch") is E.NONE:
                self.world.offsets.fetched(slot, result.committed_offset, sent_us, stable=False)

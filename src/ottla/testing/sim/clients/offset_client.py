"""Client that commits and fetches offsets without a group membership, as consumers with manual assignment do."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.testing.sim.checkers.offsets import Commit, Slot
from ottla.testing.sim.clients.client import GROUP, RETRIABLE, Client
from ottla.testing.sim.clients.process import NoResponse
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


class OffsetClient(Client):
    """The only client of its group: offsets increase by one with every commit."""

    topic = "in"

    async def run(self) -> None:
        number = 0
        # Commits of a former incarnation may still be in flight: they must not be taken for commits of this one.
        slot = Slot(f"{self.client_id}-{self.incarnation}", self.cluster.partitions(self.topic)[0])
        self.connection = self.coordinator(GROUP, slot.group)
        await self.find_coordinator(GROUP, slot.group)
        while not self.cluster.ending:
            number += 1
            try:
                await self._commit(slot, number)
                await self._fetch(slot)
            except NoResponse:
                await self.process.backoff()
            await self.process.sleep(self.rng.uniform(50, 1000))

    async def _commit(self, slot: Slot, offset: int) -> None:
        name = f"{self.name}#{offset}"
        self.cluster.offsets.requested(name, Commit(slot, offset, "", -1))
        partition = OffsetCommitRequestPartition(
            partition_index=slot.tp.partition, committed_offset=offset, committed_metadata=name
        )
        topic = OffsetCommitRequestTopic(name=slot.tp.topic, partitions=[partition])
        request = OffsetCommitRequest(group_id=slot.group, topics=[topic])
        try:
            response = await self.connection.request(
                request, self.rng.choice((2, 5, 9)), OffsetCommitResponse
            )
        except NoResponse:
            self.cluster.offsets.abandoned(name)
            raise
        code = response.topics[0].partitions[0].error_code
        if self.expect(code, E.NONE, RETRIABLE, doing="OffsetCommit") is E.NONE:
            self.cluster.offsets.acknowledged(name)
        else:
            self.cluster.offsets.abandoned(name)

    async def _fetch(self, slot: Slot) -> None:
        sent_us = self.kernel.now_us
        topic = OffsetFetchRequestTopic(name=slot.tp.topic, partition_indexes=[slot.tp.partition])
        request = OffsetFetchRequest(group_id=slot.group, topics=[topic])
        response = await self.connection.request(request, 5, OffsetFetchResponse)
        if self.expect(response.error_code, E.NONE, RETRIABLE, doing="OffsetFetch") is E.NONE:
            result = response.topics[0].partitions[0]
            if self.expect(result.error_code, E.NONE, RETRIABLE, doing="OffsetFetch") is E.NONE:
                self.cluster.offsets.fetched(slot, result.committed_offset, sent_us, stable=False)

"""What members of both group protocols share: positions, processing, commits and fetched offsets.

A member processes what it reads and commits it later, so a record may be processed twice but never be skipped.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.actors.actor import RETRIABLE, Actor, by_topic
from ottla.testing.sim.actors.reading import fetch
from ottla.testing.sim.client import Unanswered, Wire
from ottla.testing.sim.kernel import US_PER_MS
from ottla.testing.sim.node import PORT
from ottla.testing.sim.offsets_ledger import Commit, Slot
from ottla.testing.sim.world import World
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopics,
)

E = ErrorCode
OUT: Final = frozenset(
    {
        E.UNKNOWN_MEMBER_ID,
        E.ILLEGAL_GENERATION,
        E.REBALANCE_IN_PROGRESS,
        E.FENCED_INSTANCE_ID,
        E.STALE_MEMBER_EPOCH,
        E.FENCED_MEMBER_EPOCH,
        E.GROUP_ID_NOT_FOUND,
    }
)
"""A member that hears one of these must ask anew what it owns."""


class Out(Exception):
    """The member is no longer what it was in the group."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Member(Actor):
    """A member of `group`, reading `topics`. Subclasses know a protocol."""

    session_ms = 4000
    rebalance_ms = 5000

    def __init__(self, world: World, who: str, life: int = 0, *, group: str, topics: tuple[str, ...]) -> None:
        super().__init__(world, who, life)
        self.group = group
        self.topics = topics
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = None
        self.positions: dict[TopicPartition, int] = {}
        self.uncommitted: dict[TopicPartition, None] = {}
        self.data: Wire = self.process.wire(PORT)
        self.commit_version = 8
        self.lives_until_ms: int | None = None
        self.claims_nothing = False
        self._commits = 0

    def again(self) -> Actor:
        return type(self)(self.world, self.who, self.life + 1, group=self.group, topics=self.topics)

    def kill(self) -> None:
        super().kill()
        self.world.claims.drop(self.group, self.name, list(self.positions))

    async def _live(self) -> None:
        await super()._live()
        self.give_back(list(self.positions))  # whoever left, or was fenced, owns nothing

    @property
    def leaving(self) -> bool:
        return self.lives_until_ms is not None and self.kernel.now_ms >= self.lives_until_ms

    # Owning

    def take(
        self, offsets: dict[TopicPartition, int], since_us: int, generation: tuple[int, str] | None
    ) -> None:
        """Own more partitions, beginning at these offsets; the last good heartbeat was sent at `since_us`."""
        if not self.claims_nothing:
            until_us = self.until_us(since_us)
            self.world.claims.claim(self.group, self.name, list(offsets), until_us, generation)
        self.positions.update({place: max(offset, 0) for place, offset in offsets.items()})
        self.kernel.note(self.name, f"owns {sorted(map(str, self.positions))} in {self.generation}")

    def heard(self, sent_us: int) -> None:
        """A heartbeat that was sent then went well."""
        self.world.claims.extend(self.group, self.name, list(self.positions), self.until_us(sent_us))

    def until_us(self, sent_us: int) -> int:
        return sent_us + min(self.session_ms, self.rebalance_ms) * US_PER_MS

    def give_back(self, places: list[TopicPartition]) -> None:
        self.world.claims.drop(self.group, self.name, places)
        for place in places:
            self.positions.pop(place, None)
            self.uncommitted.pop(place, None)

    # Processing

    async def poll(self, wait_ms: int) -> int:
        """Read and process some records; how many."""
        if not self.positions:
            await self.process.sleep(wait_ms)
            return 0
        before = dict(self.positions)
        after = dict(self.positions)
        try:
            found = await fetch(self, self.data, after, committed=True, wait_ms=wait_ms)
        except Unanswered:
            return 0
        for place in found:
            if after[place] > before[place]:
                self.world.consumed(self.group, place, before[place], after[place])
                self.positions[place] = after[place]
                self.uncommitted[place] = None
        return sum(map(len, found.values()))

    # Offsets

    async def commit(self) -> None:
        """Commit what was processed; raises Out, or Unanswered after a few attempts."""
        places = list(self.uncommitted)
        if not places:
            return
        names = self._named(places)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=self.positions[TopicPartition(topic, index)],
                            committed_metadata=names[TopicPartition(topic, index)],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(places).items()
            ],
        )
        try:
            answer = await self.wire.ask(request, self.commit_version, OffsetCommitResponse)
        except Unanswered:
            for name in names.values():
                self.world.offsets.given_up(name)
            raise
        for topic_result in answer.topics:
            for result in topic_result.partitions:
                place = TopicPartition(topic_result.name, result.partition_index)
                error = self.expect(result.error_code, E.NONE, RETRIABLE, OUT, doing="OffsetCommit")
                if error is E.NONE:
                    self.world.offsets.acknowledged(names[place])
                    self.uncommitted.pop(place, None)
                else:
                    self.world.offsets.given_up(names[place])
                    if error in OUT:
                        raise Out(error)

    def _named(self, places: list[TopicPartition]) -> dict[TopicPartition, str]:
        """Names for the commits of these partitions, told to the ledger."""
        names = {}
        for place in places:
            self._commits += 1
            names[place] = f"{self.name}#{self._commits}"
            commit = Commit(Slot(self.group, place), self.positions[place], self.member_id, self.generation)
            self.world.offsets.asked(names[place], commit)
        return names

    async def committed_offsets(
        self, places: list[TopicPartition], version: int
    ) -> dict[TopicPartition, int]:
        """Where to begin; raises Out, or Unanswered."""
        while True:
            request = OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id=self.group,
                        member_id=self.member_id if version >= 9 else None,
                        member_epoch=self.generation if version >= 9 else -1,
                        topics=[
                            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                            for topic, indexes in by_topic(places).items()
                        ],
                    )
                ],
                require_stable=True,
            )
            sent_us = self.kernel.now_us
            answer = await self.wire.ask(request, version, OffsetFetchResponse)
            group = answer.groups[0]
            error = self.expect(group.error_code, E.NONE, RETRIABLE, OUT, doing="OffsetFetch")
            if error in OUT:
                raise Out(error)
            found = {} if error else self._take_offsets(group.topics, sent_us)
            if found is not None and not error:
                return found
            await self.process.backoff()

    def _take_offsets(
        self, topics: list[OffsetFetchResponseTopics], sent_us: int
    ) -> dict[TopicPartition, int] | None:
        """The offsets of an answer; None if some are not stable."""
        found: dict[TopicPartition, int] = {}
        for topic in topics:
            for result in topic.partitions:
                place = TopicPartition(topic.name, result.partition_index)
                error = self.expect(
                    result.error_code, E.NONE, E.UNSTABLE_OFFSET_COMMIT, RETRIABLE, doing="OffsetFetch"
                )
                if error:
                    return None
                slot = Slot(self.group, place)
                self.world.offsets.fetched(slot, result.committed_offset, sent_us, stable=True)
                found[place] = result.committed_offset
        return found

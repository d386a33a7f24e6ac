"""Base class of group members: positions, processing, commits and fetched offsets.

A member processes what it reads and commits later, so that a record may be processed twice but is never skipped.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.checkers.offsets import Commit, Slot
from ottla.testing.sim.clients.client import GROUP, RETRIABLE, Client, by_topic
from ottla.testing.sim.clients.fetch import Fetcher
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.kernel.events import US_PER_MS
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
MEMBERSHIP_ERRORS: Final = frozenset(
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
"""A member that receives one of these must determine again what it owns."""


class MembershipLost(Exception):
    """The member has lost its membership, or its generation is over."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


_LATE_MS: Final = 30_000


class Member(Client):
    """A member of `group` that reads `topics`. Subclasses implement a group protocol."""

    unverified_heartbeats = False
    """Whether a heartbeat may succeed although the coordinator does not know the member (`OwnershipChecker.extend`)."""
    session_ms = 4000
    rebalance_ms = 5000

    def __init__(
        self, cluster: Cluster, client_id: str, incarnation: int = 0, *, group: str, topics: tuple[str, ...]
    ) -> None:
        super().__init__(cluster, client_id, incarnation)
        self.group = group
        self.topics = topics
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = None
        self.positions: dict[TopicPartition, int] = {}
        self.uncommitted: dict[TopicPartition, None] = {}
        self.connection = self.coordinator(GROUP, group)
        self.fetcher = Fetcher(self, committed=True)
        self.commit_version = 8
        self.leaves_at_ms: int | None = None
        self.claims_disabled = False
        self._commits = 0
        self._repeats_until_ms = 0
        """Until then a commit without a response can still arrive, so offsets are committed again."""

    def next_incarnation(self) -> Client:
        return type(self)(
            self.cluster, self.client_id, self.incarnation + 1, group=self.group, topics=self.topics
        )

    def kill(self) -> None:
        super().kill()
        self.cluster.ownership.release(self.group, self.name, list(self.positions))

    async def _run(self) -> None:
        await super()._run()
        self.release(list(self.positions))  # a member that has left or was fenced owns nothing

    @property
    def leaving(self) -> bool:
        return self.leaves_at_ms is not None and self.kernel.now_ms >= self.leaves_at_ms

    # Ownership

    def own(
        self, offsets: dict[TopicPartition, int], since_us: int, generation: tuple[int, str] | None
    ) -> None:
        """Take partitions, starting at these offsets; `since_us`: when the last successful heartbeat was sent."""
        if not self.claims_disabled:
            until_us = self.until_us(since_us)
            self.cluster.ownership.claim(self.group, self.name, list(offsets), until_us, generation)
        self.positions.update({tp: max(offset, 0) for tp, offset in offsets.items()})
        self.kernel.note(self.name, f"owns {sorted(map(str, self.positions))} in {self.generation}")

    def heartbeat_succeeded(self, sent_us: int) -> None:
        """Extend the claims: the heartbeat that was sent at `sent_us` succeeded."""
        self.cluster.ownership.extend(
            self.group,
            self.name,
            list(self.positions),
            self.until_us(sent_us),
            unverified=self.unverified_heartbeats,
        )

    def until_us(self, sent_us: int) -> int:
        """The end of claims after a heartbeat that was sent at `sent_us`."""
        return sent_us + min(self.session_ms, self.rebalance_ms) * US_PER_MS

    def release(self, partitions: list[TopicPartition]) -> None:
        """Give up the ownership of partitions."""
        self.cluster.ownership.release(self.group, self.name, partitions)
        for tp in partitions:
            self.positions.pop(tp, None)
            self.uncommitted.pop(tp, None)

    # Processing

    async def poll(self, wait_ms: int) -> int:
        """Read and process records; return how many."""
        if not self.positions:
            await self.process.sleep(wait_ms)
            return 0
        before = dict(self.positions)
        after = dict(self.positions)
        try:
            found = await self.fetcher.fetch(after, wait_ms)
        except NoResponse:
            return 0
        for tp in found:
            if after[tp] > before[tp]:
                self.cluster.processed_by(self.group, tp, before[tp], after[tp])
                self.positions[tp] = after[tp]
                self.uncommitted[tp] = None
        return sum(map(len, found.values()))

    # Offsets

    async def commit(self) -> None:
        """Commit what was processed; raises MembershipLost or NoResponse."""
        partitions = list(self.uncommitted)
        if not partitions and self.kernel.now_ms < self._repeats_until_ms:
            partitions = list(self.positions)
        if not partitions:
            return
        names = self._named(partitions)
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
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        try:
            response = await self.connection.request(request, self.commit_version, OffsetCommitResponse)
        except NoResponse:
            for name in names.values():
                self.cluster.offsets.abandoned(name)
            self._repeats_until_ms = self.kernel.now_ms + _LATE_MS
            raise
        for topic_result in response.topics:
            for result in topic_result.partitions:
                tp = TopicPartition(topic_result.name, result.partition_index)
                error = self.expect(
                    result.error_code, E.NONE, RETRIABLE, MEMBERSHIP_ERRORS, doing="OffsetCommit"
                )
                if error is E.NONE:
                    self.cluster.offsets.acknowledged(names[tp])
                    self.uncommitted.pop(tp, None)
                else:
                    self.cluster.offsets.abandoned(names[tp])
                    if error in MEMBERSHIP_ERRORS:
                        raise MembershipLost(error)

    def _named(self, partitions: list[TopicPartition]) -> dict[TopicPartition, str]:
        """Register the commits of these partitions with the checker, and return their names."""
        names = {}
        for tp in partitions:
            self._commits += 1
            names[tp] = f"{self.name}#{self._commits}"
            commit = Commit(Slot(self.group, tp), self.positions[tp], self.member_id, self.generation)
            self.cluster.offsets.requested(names[tp], commit)
        return names

    async def committed_offsets(
        self, partitions: list[TopicPartition], version: int
    ) -> dict[TopicPartition, int]:
        """Fetch the committed offsets; raises MembershipLost or NoResponse."""
        while True:
            request = OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id=self.group,
                        member_id=self.member_id if version >= 9 else None,
                        member_epoch=self.generation if version >= 9 else -1,
                        topics=[
                            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                            for topic, indexes in by_topic(partitions).items()
                        ],
                    )
                ],
                require_stable=True,
            )
            sent_us = self.kernel.now_us
            response = await self.connection.request(request, version, OffsetFetchResponse)
            group = response.groups[0]
            error = self.expect(group.error_code, E.NONE, RETRIABLE, MEMBERSHIP_ERRORS, doing="OffsetFetch")
            if error in MEMBERSHIP_ERRORS:
                raise MembershipLost(error)
            found = {} if error else self._take_offsets(group.topics, sent_us)
            if found is not None and not error:
                return found
            await self.process.backoff()

    def _take_offsets(
        self, topics: list[OffsetFetchResponseTopics], sent_us: int
    ) -> dict[TopicPartition, int] | None:
        """The offsets of a response; None if some are not stable."""
        found: dict[TopicPartition, int] = {}
        for topic in topics:
            for result in topic.partitions:
                tp = TopicPartition(topic.name, result.partition_index)
                error = self.expect(
                    result.error_code, E.NONE, E.UNSTABLE_OFFSET_COMMIT, RETRIABLE, doing="OffsetFetch"
                )
                if error:
                    return None
                slot = Slot(self.group, tp)
                self.cluster.offsets.fetched(slot, result.committed_offset, sent_us, stable=True)
                found[tp] = result.committed_offset
        return found

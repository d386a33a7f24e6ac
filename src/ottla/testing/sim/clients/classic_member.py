"""Member of a classic group with the eager protocol: the leader assigns ranges of partitions.

It joins, syncs, and then reads, sends heartbeats and commits until it learns of a rebalance. Then it commits, releases
its partitions and joins again. Some members are static and return with the same instance id; some leave the group
properly, others end without leaving.
"""

from __future__ import annotations

import contextlib

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.clients.client import GROUP, RETRIABLE, Fenced, by_topic
from ottla.testing.sim.clients.member import Member, MembershipLost
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.cluster import Cluster
from ottla.wire import codec
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

E = ErrorCode
_ASSIGNOR = "range"


class ClassicMember(Member):
    """A member that uses JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

    unverified_heartbeats = True
    heartbeat_ms = 700

    def __init__(
        self, cluster: Cluster, client_id: str, incarnation: int = 0, *, group: str, topics: tuple[str, ...]
    ) -> None:
        super().__init__(cluster, client_id, incarnation, group=group, topics=topics)
        traits = cluster.stream(f"traits of {client_id}")
        if traits.random() < 0.3:
            self.instance_id = client_id
        self.join_version = traits.choice((5, 7, 9) if self.instance_id else (2, 4, 5, 6, 9))
        self.commit_version = traits.choice((7, 8, 9)) if self.instance_id else traits.choice((2, 5, 7, 9))

    async def run(self) -> None:
        await self.find_coordinator(GROUP, self.group)
        while not self.leaving:
            try:
                sent_us = await self._join()
                await self._work(sent_us)
            except MembershipLost as out:
                self._membership_lost(out.code)
            except NoResponse:
                await self.process.backoff()
            self.release(list(self.positions))
        await self._leave()

    def _membership_lost(self, code: ErrorCode) -> None:
        if code is E.FENCED_INSTANCE_ID:
            raise Fenced
        if code is E.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code is not E.REBALANCE_IN_PROGRESS:
            self.generation = -1

    # Join and sync

    async def _join(self) -> int:
        """Join a generation and take the assigned partitions; return when SyncGroup was sent."""
        response = await self._joined()
        self.generation = response.generation_id
        plan: list[SyncGroupRequestAssignment] = []
        if response.leader == response.member_id:
            plan = self._plan([member.member_id for member in response.members])
        sent_us = self.kernel.now_us
        synced = await self.connection.request(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer" if self.join_version >= 9 else None,
                protocol_name=_ASSIGNOR if self.join_version >= 9 else None,
                assignments=plan,
            ),
            5 if self.join_version >= 9 else 3,
            SyncGroupResponse,
            self.rebalance_ms + 2000,
        )
        await self._check(synced.error_code, "SyncGroup")
        partitions = self._partitions(synced.assignment)
        offsets = await self.committed_offsets(partitions, 8) if partitions else {}
        # A static member that returns within a generation gets the same partitions again.
        self.own(offsets, sent_us, (self.generation, self.instance_id or self.name))
        return sent_us

    async def _joined(self) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=self.rebalance_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=self._subscription())],
            )
            timeout_ms = self.rebalance_ms + 5000
            response = await self.connection.request(
                request, self.join_version, JoinGroupResponse, timeout_ms
            )
            if response.error_code == E.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                continue
            await self._check(response.error_code, "JoinGroup")
            self.member_id = response.member_id
            return response

    async def _check(self, code: int, doing: str) -> None:
        """Raise the exception that corresponds to an error code."""
        error = self.expect(
            code,
            E.NONE,
            RETRIABLE,
            E.UNKNOWN_MEMBER_ID,
            E.ILLEGAL_GENERATION,
            E.REBALANCE_IN_PROGRESS,
            E.FENCED_INSTANCE_ID,
            doing=doing,
        )
        if error in RETRIABLE:
            raise NoResponse(error.name)
        if error:
            raise MembershipLost(error)

    def _subscription(self) -> bytes:
        content = ConsumerProtocolSubscription(topics=list(self.topics))
        return b"\0\1" + codec.encode(content, 1)

    def _plan(self, member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
        """Assign ranges of each topic; the first members get the longer ones."""
        member_ids = sorted(member_ids)
        owned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in member_ids}
        for topic in self.topics:
            partitions = self.cluster.partitions(topic)
            share, more = divmod(len(partitions), len(member_ids))
            start = 0
            for number, member_id in enumerate(member_ids):
                end = start + share + (1 if number < more else 0)
                owned[member_id] += partitions[start:end]
                start = end
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(partitions))
            for member_id, partitions in owned.items()
        ]

    @staticmethod
    def _partitions(assignment: bytes) -> list[TopicPartition]:
        if not assignment:
            return []
        version = int.from_bytes(assignment[:2], "big")
        content = codec.decode(ConsumerProtocolAssignment, assignment, version, start=2)
        return [
            TopicPartition(topic.topic, index)
            for topic in content.assigned_partitions
            for index in topic.partitions
        ]

    # Work

    async def _work(self, sent_us: int) -> None:
        """Read, process, commit and send heartbeats until a rebalance; raises MembershipLost."""
        next_heartbeat_ms = sent_us // 1000 + self.heartbeat_ms
        next_commit_ms = self.kernel.now_ms + self.rng.randrange(300, 1500)
        while not self.leaving:
            await self.poll(self.rng.randrange(100, 400))
            try:
                if self.kernel.now_ms >= next_heartbeat_ms:
                    await self._heartbeat()
                    next_heartbeat_ms = self.kernel.now_ms + self.heartbeat_ms
                if self.kernel.now_ms >= next_commit_ms:
                    await self.commit()
                    next_commit_ms = self.kernel.now_ms + self.rng.randrange(300, 1500)
            except NoResponse:
                await self.process.backoff()

    async def _heartbeat(self) -> None:
        sent_us = self.kernel.now_us
        response = await self.connection.request(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            ),
            3,
            HeartbeatResponse,
        )
        if response.error_code == E.REBALANCE_IN_PROGRESS:
            self.kernel.count("rebalances noticed")
            with contextlib.suppress(NoResponse):
                await self.commit()
        await self._check(response.error_code, "Heartbeat")
        self.heartbeat_succeeded(sent_us)

    async def _leave(self) -> None:
        if not self.member_id or self.instance_id is not None:
            return
        self.kernel.count("members left")
        members = [MemberIdentity(member_id=self.member_id)]
        try:
            await self.connection.request(
                LeaveGroupRequest(group_id=self.group, members=members), 4, LeaveGroupResponse
            )
        except NoResponse:
            return


def _assignment(partitions: list[TopicPartition]) -> bytes:
    content = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )
    return b"\0\1" + codec.encode(content, 1)

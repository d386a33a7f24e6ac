"""Member of a consumer group (KIP-848): everything is part of heartbeats, and partitions move one by one.

It reports the partitions it owns and receives its assignment. It commits and releases the partitions it must revoke,
reports that, and takes the new ones. A fenced member releases everything and joins again with epoch 0.
"""

from __future__ import annotations

import contextlib

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition, uuid_text
from ottla.base.rng import random_uuid
from ottla.testing.sim.clients.client import GROUP, RETRIABLE, Fenced, by_topic
from ottla.testing.sim.clients.member import Member, MembershipLost
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.kernel.events import US_PER_MS
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

E = ErrorCode
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2


class ConsumerMember(Member):
    """A member that uses ConsumerGroupHeartbeat."""

    def __init__(
        self, cluster: Cluster, client_id: str, incarnation: int = 0, *, group: str, topics: tuple[str, ...]
    ) -> None:
        super().__init__(cluster, client_id, incarnation, group=group, topics=topics)
        traits = cluster.stream(f"traits of {client_id}")
        if traits.random() < 0.3:
            self.instance_id = client_id
        self.assignor = traits.choice((None, "uniform", "range"))
        self.regex = "|".join(topics) if traits.random() < 0.3 else None
        self.member_id = uuid_text(random_uuid(self.rng))
        self.commit_version = 9
        self.generation = 0
        self._heartbeat_ms = 500
        self._full = True
        self._no_revocation_us = 0
        self._heartbeat_us = 0

    async def run(self) -> None:
        await self.find_coordinator(GROUP, self.group)
        next_heartbeat_ms = 0
        next_commit_ms = self.kernel.now_ms + self.rng.randrange(300, 1500)
        while not self.leaving:
            try:
                if self.kernel.now_ms >= next_heartbeat_ms:
                    settled = await self._heartbeat()
                    next_heartbeat_ms = self.kernel.now_ms + (self._heartbeat_ms if settled else 0)
                if self.kernel.now_ms >= next_commit_ms:
                    await self.commit()
                    next_commit_ms = self.kernel.now_ms + self.rng.randrange(300, 1500)
                await self.poll(self.rng.randrange(100, 400))
            except MembershipLost as out:
                if out.code not in (E.STALE_MEMBER_EPOCH, E.REBALANCE_IN_PROGRESS):
                    self._rejoin()
                next_heartbeat_ms = 0
            except NoResponse:
                self._full = True
                await self.process.backoff()
        await self._leave()

    def _rejoin(self) -> None:
        self.kernel.count("members fenced")
        self.release(list(self.positions))
        self.generation = 0
        self._full = True

    def until_us(self, sent_us: int) -> int:
        # It can have missed a revocation only since the last response that contained none.
        session_us = self._heartbeat_us + self.session_ms * US_PER_MS
        return min(session_us, self._no_revocation_us + self.rebalance_ms * US_PER_MS)

    async def _heartbeat(self) -> bool:
        """Send a heartbeat and apply the response; False if another heartbeat must follow at once."""
        sent_us = self.kernel.now_us
        full = self._full or self.generation == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance_id if full else None,
            rebalance_timeout_ms=self.rebalance_ms if full else -1,
            subscribed_topic_names=list(self.topics) if full and self.regex is None else None,
            subscribed_topic_regex=self.regex if full else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=self._owned(),
        )
        response = await self.connection.request(request, 1, ConsumerGroupHeartbeatResponse)
        error = self.expect(
            response.error_code,
            E.NONE,
            RETRIABLE,
            E.UNKNOWN_MEMBER_ID,
            E.FENCED_MEMBER_EPOCH,
            E.UNRELEASED_INSTANCE_ID,
            E.FENCED_INSTANCE_ID,
            E.GROUP_ID_NOT_FOUND,  # it has become a classic group
            doing="ConsumerGroupHeartbeat",
        )
        if error in RETRIABLE or error is E.UNRELEASED_INSTANCE_ID:
            raise NoResponse(error.name)
        if error is E.FENCED_INSTANCE_ID:
            raise Fenced
        if error:
            raise MembershipLost(error)
        self._full = False
        self._heartbeat_ms = response.heartbeat_interval_ms or self._heartbeat_ms
        self.kernel.check(
            response.member_epoch >= self.generation,
            "G2 epochs and generations never decrease",
            f"{self.name}: {self.generation} to {response.member_epoch}",
        )
        self.generation = response.member_epoch
        self.kernel.check(self.generation > 0, "a member that joined has an epoch", self.name)
        self._heartbeat_us = sent_us
        return await self._reconcile(response.assignment, sent_us)

    async def _reconcile(self, assignment: Assignment | None, sent_us: int) -> bool:
        if assignment is None:
            if self._no_revocation_us:
                self._no_revocation_us = sent_us
            self.heartbeat_succeeded(sent_us)
            return True
        wanted = self._partitions(assignment)
        revoked = [tp for tp in self.positions if tp not in wanted]
        new = [tp for tp in wanted if tp not in self.positions]
        if revoked:
            self.kernel.count("partitions revoked", len(revoked))
            self.heartbeat_succeeded(sent_us)
            try:
                await self.commit()
            except NoResponse:
                self._full = True
            self.release(revoked)
            return False
        self._no_revocation_us = sent_us
        self.heartbeat_succeeded(sent_us)
        if new:
            offsets = await self.committed_offsets(new, 9)
            self.own(offsets, sent_us, None)
            self.kernel.count("partitions assigned", len(new))
            return False
        return True

    def _owned(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self.cluster.topic_ids[topic], partitions=indexes)
            for topic, indexes in by_topic(list(self.positions)).items()
        ]

    def _partitions(self, assignment: Assignment) -> list[TopicPartition]:
        names = {topic_id: name for name, topic_id in self.cluster.topic_ids.items()}
        return [
            TopicPartition(names[topic.topic_id], index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        ]

    async def _leave(self) -> None:
        with contextlib.suppress(MembershipLost, NoResponse):
            await self.commit()
        self.release(list(self.positions))
        self.kernel.count("members left")
        static = self.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=_LEAVE_FOR_A_WHILE if static and self.rng.random() < 0.5 else _LEAVE,
            instance_id=self.instance_id,
        )
        try:
            await self.connection.request(request, 1, ConsumerGroupHeartbeatResponse)
        except NoResponse:
            return

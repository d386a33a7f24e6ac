"""Client that deletes a topic and creates it again with the same name, between writing and reading it by its id.

Rules: a topic has exactly the records that were written to its id, whatever the brokers have on their disks from
earlier topics of that name; what was acknowledged can be read until the topic is deleted.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition, Uuid
from ottla.testing.sim.checkers.logs import recreated
from ottla.testing.sim.clients.client import RETRIABLE, Client
from ottla.testing.sim.clients.fetch import take
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.clients.producer_session import ProducerSession
from ottla.testing.sim.clients.routes import Address, LeaderRoute
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

E = ErrorCode
TOPIC: Final = "again"
_PARTITIONS: Final = 2
_FETCH_VERSION: Final = 13
_ATTEMPTS_MAX: Final = 60
_NOT_YET: Final = frozenset({E.UNKNOWN_TOPIC_ID, E.INCONSISTENT_TOPIC_ID})


class _Deleted(Exception):
    """The topic does not exist, or the brokers have not learned of it for a long time."""


class _TopicRoute(LeaderRoute):
    """A route to the leaders of one topic, as long as brokers know its id."""

    def __init__(self, client: TopicCycler, topic_id: Uuid) -> None:
        super().__init__(client.routes)
        self._client = client
        self._topic_id = topic_id
        self._failed = 0

    async def find(self) -> Address:
        try:
            return await super().find()
        except NoResponse:
            # The topic may be deleted: a broker with old metadata can return the id of a deleted one.
            self._failed += await self._client.look_up() != self._topic_id
            if self._failed > _ATTEMPTS_MAX:
                raise _Deleted from None
            raise


class _Session(ProducerSession):
    """Writes to one topic, by its id."""

    failed = 0

    def __init__(self, client: TopicCycler, topic_id: Uuid) -> None:
        super().__init__(client)
        self.topic_ids[TOPIC] = topic_id
        self._leaders = _TopicRoute(client, topic_id)

    def _refusals(self) -> tuple[frozenset[ErrorCode], ...]:
        return (_NOT_YET,)

    def _raise_for(self, error: ErrorCode) -> None:
        self.failed += error in _NOT_YET
        if self.failed > _ATTEMPTS_MAX:
            raise _Deleted


class TopicCycler(Client):
    """One topic after another, all with the same name."""

    async def run(self) -> None:
        self.cluster.logs.recreated.add(TOPIC)
        number = 0
        while not self.cluster.ending:
            topic_id = await self._create()
            session = _Session(self, topic_id)
            await session.init()
            acknowledged: dict[TopicPartition, int] = {}
            try:
                for _ in range(self.rng.randrange(1, 8)):
                    tp = TopicPartition(TOPIC, self.rng.randrange(_PARTITIONS))
                    number += 1
                    await session.produce(tp, [f"{self.client_id}/{self.incarnation}/0/{number}"])
                    acknowledged[tp] = acknowledged.get(tp, 0) + 1
                    await self.process.sleep(self.rng.uniform(0, 300))
                for tp, least in acknowledged.items():
                    await self._read(tp, topic_id, least)
            except _Deleted:
                self.kernel.count("topics deleted early")
            await self._delete(topic_id)

    async def _create(self) -> Uuid:
        """Create the topic, or use the one that exists."""
        later = RETRIABLE | {E.INVALID_REPLICATION_FACTOR}
        factor = self.cluster.replication_factor
        topic = CreatableTopic(name=TOPIC, num_partitions=_PARTITIONS, replication_factor=factor)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        while True:
            response = await self.retried(self.connection, request, 7, CreateTopicsResponse)
            result = response.topics[0]
            error = self.expect(
                result.error_code, E.NONE, E.TOPIC_ALREADY_EXISTS, later, doing="CreateTopics"
            )
            if error is E.NONE:
                self.kernel.count("topics created again")
                return result.topic_id
            found = await self.look_up() if error is E.TOPIC_ALREADY_EXISTS else None
            if found is not None:
                return found
            await self.process.backoff()

    async def look_up(self) -> Uuid | None:
        """The id of the topic, as some broker knows it; None if it does not exist there."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        response = await self.retried(self.connection, request, 12, MetadataResponse)
        topic = response.topics[0]
        return None if topic.error_code else topic.topic_id

    async def _read(self, tp: TopicPartition, topic_id: Uuid, least: int) -> None:
        """Read a partition from its start to the acknowledged records; each response is compared with the log."""
        route, key, failed = _TopicRoute(self, topic_id).to(tp), recreated(tp, topic_id), 0
        positions = {key: 0}
        while positions[key] < least:
            partition = FetchPartition(
                partition=tp.partition, fetch_offset=positions[key], partition_max_bytes=4096
            )
            request = FetchRequest(
                max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
            )
            response = await self.retried(route, request, _FETCH_VERSION, FetchResponse)
            self.expect(response.error_code, E.NONE, RETRIABLE, doing="Fetch")
            data = response.responses[0].partitions[0]
            error = self.expect(data.error_code, E.NONE, RETRIABLE, _NOT_YET, doing="Fetch")
            if error is E.NONE:
                take(self, key, data, positions, committed=False)
                continue
            failed += error in _NOT_YET
            if failed > _ATTEMPTS_MAX:
                raise _Deleted
            await self.process.backoff()

    async def _delete(self, topic_id: Uuid) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=5000
        )
        while True:
            response = await self.retried(self.connection, request, 6, DeleteTopicsResponse)
            error = self.expect(
                response.responses[0].error_code, E.NONE, E.UNKNOWN_TOPIC_ID, RETRIABLE, doing="DeleteTopics"
            )
            if error in (E.NONE, E.UNKNOWN_TOPIC_ID):
                self.kernel.count("topics deleted")
                return
            await self.process.backoff()

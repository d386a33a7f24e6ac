"""Producers as clients implement them: sequence numbers per partition, and retries of the same batch.

`ProducerSession` is an idempotent producer. `TransactionalSession` adds transactions, in either version of the
protocol: in the first the client adds partitions and the epoch stays; in the second the broker adds partitions and
every transaction has its own epoch.
"""

from __future__ import annotations

import contextlib
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID, TopicPartition, Uuid
from ottla.records.builder import NewRecord, build_batch
from ottla.testing.sim.checkers.logs import recreated
from ottla.testing.sim.checkers.transactions import Epoch, Txn, TxnName
from ottla.testing.sim.clients.client import GROUP, RETRIABLE, TXN, Client, Fenced, by_topic
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.clients.routes import Route
from ottla.testing.sim.kernel.events import START_MS
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

E = ErrorCode
_VERSION_WITH_IDS: Final = 13
FENCED: Final = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING})
ABORTABLE: Final = frozenset({E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.OUT_OF_ORDER_SEQUENCE_NUMBER})
NOT_A_MEMBER: Final = frozenset(
    {E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.STALE_MEMBER_EPOCH}
)


class MustAbort(Exception):
    """The transaction must be aborted."""


class ProducerSession:
    """An idempotent producer."""

    produce_version = 11
    transactional_id: str | None = None

    def __init__(self, client: Client) -> None:
        self.client = client
        self.connection = Route(client.routes)
        """To the broker that allocates producer ids: any broker, or the coordinator of the transactional id."""
        self._leaders = client.leaders()
        self.producer_id = -1
        self.epoch = -1
        self.topic_ids: dict[str, Uuid] = {}
        """Topics that are written by their id, because another topic may get their name."""
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self) -> None:
        while True:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response = await self.client.retried(self.connection, request, 4, InitProducerIdResponse)
            if self.client.expect(response.error_code, E.NONE, RETRIABLE, doing="InitProducerId") is E.NONE:
                self._begin_epoch(response.producer_id, response.producer_epoch)
                return
            await self.client.process.backoff()

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    def request(
        self,
        tp: TopicPartition,
        values: list[str],
        sequence: int,
        *,
        transactional: bool = False,
        topic_id: Uuid = ZERO_UUID,
        timeout_ms: int = 3000,
    ) -> ProduceRequest:
        """A request with one batch, with acks=all."""
        timestamp = START_MS + self.client.kernel.now_ms
        batch = build_batch(
            [NewRecord(None, value.encode(), timestamp=timestamp) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=tp.topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=tp.partition, records=batch)],
                )
            ],
        )

    async def produce(self, tp: TopicPartition, values: list[str], txn: Txn | None = None) -> None:
        """Write records with acks=all, again until they are acknowledged."""
        client = self.client
        topic_id = self.topic_ids.get(tp.topic, ZERO_UUID)
        version = self.produce_version if topic_id == ZERO_UUID else _VERSION_WITH_IDS
        key = tp if topic_id == ZERO_UUID else recreated(tp, topic_id)
        sequence = self._sequences.get(key, 0)
        if key is tp:
            client.cluster.txns.sent(txn, f"{client.client_id}/{client.incarnation}", values)
        request = self.request(tp, values, sequence, transactional=txn is not None, topic_id=topic_id)
        while True:
            route = self._leaders.to(tp)
            response = await client.retried(route, request, version, ProduceResponse)
            result = response.responses[0].partition_responses[0]
            error = client.expect(result.error_code, E.NONE, RETRIABLE, *self._refusals(), doing="Produce")
            if error is E.NONE:
                client.cluster.txns.acknowledged(txn, key, result.base_offset, values, in_history=key is tp)
                self._sequences[key] = sequence + len(values)
                client.kernel.count("records acknowledged", len(values))
                return
            self._raise_for(error)
            await client.process.backoff()

    def _refusals(self) -> tuple[frozenset[ErrorCode], ...]:
        return ()

    def _raise_for(self, error: ErrorCode) -> None:
        """Raise an exception if a retry cannot succeed."""


class TransactionalSession(ProducerSession):
    """A transactional producer; `generation`: version 1 or 2 of the transaction protocol."""

    def __init__(self, client: Client, *, generation: int, timeout_ms: int, two_phase: bool = False) -> None:
        super().__init__(client)
        self.connection = client.coordinator(TXN, client.client_id)
        self.generation = min(generation, 2 if client.cluster.transaction_version >= 2 else 1)
        self.id = self.transactional_id = client.client_id
        self.produce_version = 12 if self.generation == 2 else 11
        self._timeout_ms = timeout_ms
        self._two_phase = two_phase
        self._added: dict[TopicPartition, None] = {}
        self._number = 0

    def move_to(self, client: Client) -> None:
        """Continue the session in another process, which has its own connections."""
        self.client = client
        self.connection = client.coordinator(TXN, self.id)
        self._leaders = client.leaders()

    async def init(self) -> None:
        """Get an epoch: open transactions of this id are aborted, and its former producer is fenced."""
        client = self.client
        await client.find_coordinator(TXN, client.client_id)
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self._timeout_ms,
            enable2_pc=self._two_phase,
        )
        txns, version = client.cluster.txns, 6 if self._two_phase else 4
        while True:
            txns.init_requested(client.client_id)
            try:
                response = await self.connection.request(request, version, InitProducerIdResponse)
            except NoResponse:
                await client.process.backoff()
                continue
            txns.init_answered(client.client_id)
            error = client.expect(
                response.error_code,
                E.NONE,
                RETRIABLE,
                E.CONCURRENT_TRANSACTIONS,
                FENCED,
                doing="InitProducerId",
            )
            if error is E.NONE:
                self._begin_epoch(response.producer_id, response.producer_epoch)
                epoch = Epoch(response.producer_id, response.producer_epoch)
                txns.initialised(client.client_id, epoch, client.cluster.log_ends())
                return
            if error in FENCED:
                raise Fenced
            await client.process.backoff()

    def begin(self, group: str | None = None) -> Txn:
        self._number += 1
        self._added.clear()
        name = TxnName(self.client.client_id, self.client.incarnation, self._number)
        return self.client.cluster.txns.begin(name, group)

    async def add(self, partitions: list[TopicPartition]) -> None:
        """Add partitions to the transaction before writing to them; in version 2 the broker does it."""
        if self.generation == 2:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        while True:
            response = await self.client.retried(self.connection, request, 3, AddPartitionsToTxnResponse)
            errors = [
                result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ]
            worst = E.NONE
            for code in errors:
                worst = self._expected(code, "AddPartitionsToTxn") or worst
            if worst is E.NONE:
                return
            self._raise_for(worst)
            await self.client.process.backoff()

    async def send_offsets(
        self, group: str, member_id: str, member_epoch: int, offsets: dict[TopicPartition, tuple[int, str]]
    ) -> None:
        """Commit offsets as part of the transaction; raises MustAbort if the group refuses."""
        client = self.client
        if self.generation == 1:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group,
            )
            while True:
                added = await client.retried(self.connection, adding, 3, AddOffsetsToTxnResponse)
                error = self._expected(added.error_code, "AddOffsetsToTxn")
                if error is E.NONE:
                    break
                self._raise_for(error)
                await client.process.backoff()
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=member_epoch,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offsets[TopicPartition(topic, index)][0],
                            committed_metadata=offsets[TopicPartition(topic, index)][1],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(list(offsets)).items()
            ],
        )
        version = 5 if self.generation == 2 else 3
        coordinator = client.coordinator(GROUP, group)
        while True:
            response = await client.retried(coordinator, request, version, TxnOffsetCommitResponse)
            worst = E.NONE
            for topic in response.topics:
                for result in topic.partitions:
                    worst = self._expected(result.error_code, "TxnOffsetCommit", NOT_A_MEMBER) or worst
            if worst is E.NONE:
                return
            if worst in NOT_A_MEMBER:
                raise MustAbort
            self._raise_for(worst)
            await client.process.backoff()

    async def end(self, txn: Txn, *, committed: bool) -> None:
        """Commit or abort; send the request again until there is a response."""
        client = self.client
        client.cluster.txns.end_requested(txn, committed=committed)
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        version = 5 if self.generation == 2 else 3
        while True:
            response = await client.retried(self.connection, request, version, EndTxnResponse)
            error = self._expected(response.error_code, "EndTxn")
            if error is E.NONE:
                client.cluster.txns.ended(txn, committed=committed)
                if version == 5:
                    self._begin_epoch(response.producer_id, response.producer_epoch)
                return
            self._raise_for(error)
            await client.process.backoff()

    async def abandon(self, txn: Txn) -> None:
        """Abort the transaction and get a new epoch, because requests of the old one may still be in flight."""
        self.client.kernel.count("transactions abandoned")
        with contextlib.suppress(MustAbort):
            await self.end(txn, committed=False)
        await self.init()

    def _expected(self, code: int, doing: str, *more: frozenset[ErrorCode]) -> ErrorCode:
        return self.client.expect(
            code, E.NONE, RETRIABLE, E.CONCURRENT_TRANSACTIONS, FENCED, ABORTABLE, *more, doing=doing
        )

    def _refusals(self) -> tuple[frozenset[ErrorCode], ...]:
        return FENCED, ABORTABLE, frozenset({E.CONCURRENT_TRANSACTIONS})

    def _raise_for(self, error: ErrorCode) -> None:
        if error in FENCED:
            raise Fenced
        if error in ABORTABLE:
            raise MustAbort

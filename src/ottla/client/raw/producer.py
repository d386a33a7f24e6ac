"""Idempotent and transactional producer of encoded batches, with up to five requests in flight per broker.

Batches wait in one queue per partition. A request to a leader contains at most one batch of each partition, as the
protocol requires. After a retriable error, no further batch of the partition is sent until the responses of all its
batches in flight have arrived. Then the failed batches are sent again in their order, with their old sequence
numbers, so that a broker that has stored one already detects the duplicate. Not thread-safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.crc import crc32c
from ottla.base.errors import ErrorCode, LocalError
from ottla.base.ids import TopicPartition, Uuid
from ottla.client.raw import transactions
from ottla.client.raw.connection import Connection, PendingRequest
from ottla.client.raw.errors import (
    ClientError,
    ClusterReplaced,
    ConnectionLost,
    Fenced,
    Refused,
    RetriableError,
    error_name,
    is_retriable,
)
from ottla.client.raw.offsets import NO_OFFSET
from ottla.client.raw.retry import Retry
from ottla.client.raw.transactions import ProducerIdentity, TransactionEnd
from ottla.records.batch import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    HEADER_SIZE,
    TRANSACTIONAL_MASK,
    increment_sequence,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

IN_FLIGHT_MAX = 5
"""Kafka detects duplicates of the last five batches of a producer in a partition."""
REQUEST_BYTES = 1 << 20
"""No batch is added to a request of this size; a single batch may be larger."""
_QUEUED_BYTES_MAX = 4 * REQUEST_BYTES
_ALL_REPLICAS = -1
_SLACK_S = 5.0
"""Added to the request timeout: a broker may wait that long for its replicas before it responds."""
_EXPLICIT_NEWEST = 11
"""The newest version of Produce that requires AddPartitionsToTxn first."""
_NAMES_NEWEST = 12
_PRODUCER_ID, _PRODUCER_EPOCH, _SEQUENCE = slice(43, 51), slice(51, 53), slice(53, 57)
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_STORED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_EPOCH_RAISED_MAX = (1 << 15) - 3
"""Above this epoch the coordinator assigns a new producer id instead of a higher epoch."""


class Acknowledged(NamedTuple):
    """Records and bytes acknowledged since the start of the transaction, or of the producer."""

    records: int
    bytes: int


@dataclass(slots=True)
class _Partition:
    """Batches of one partition that wait, are in flight, or failed."""

    next_sequence: int = 0
    waiting: deque[bytearray] = field(default_factory=deque)
    in_flight: int = 0
    failed: list[bytearray] = field(default_factory=list)
    retry: Retry | None = None
    added: bool = False
    last_offset: int = NO_OFFSET

    @property
    def ready(self) -> bool:
        return bool(self.waiting) and not self.failed


class _Request(NamedTuple):
    connection: Connection
    pending: PendingRequest
    batches: dict[TopicPartition, bytearray]
    names: dict[Uuid, str]
    """The names of the topics; newer responses contain ids only."""


class RawProducer:
    """Produces batches; transactional if it has a transactional id.

    Call `init` first. With a transactional id call `begin`, `send` ..., `end`; or call `flush`, and let another process
    end the transaction, which needs the transactional id and `identity`. Every error is final: `close` this producer,
    or `end` its transaction, and create a new one.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str | None = None,
        *,
        timeout_ms: int | None = None,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._timeout_ms = cluster.settings.transaction_timeout_ms if timeout_ms is None else timeout_ms
        self._two_phase = two_phase
        self._keep_prepared = keep_prepared
        self._identity: ProducerIdentity | None = None
        self._implicit = False
        self._generation = 0
        self._in_transaction = False
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._written: set[TopicPartition] = set()
        self._requests: deque[_Request] = deque()
        self._queued_bytes = 0
        self._records = 0
        self._bytes = 0

    @property
    def identity(self) -> ProducerIdentity:
        """Producer id and epoch. Raise LocalError before `init`."""
        if self._identity is None:
            raise LocalError("call init() first: it assigns the producer id")
        return self._identity

    @property
    def acknowledged(self) -> Acknowledged:
        return Acknowledged(self._records, self._bytes)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that were written in this transaction."""
        return sorted(self._written)

    @property
    def is_known(self) -> bool:
        """Whether the cluster that assigned the producer id still responds."""
        return self._generation == self._cluster.generation

    def last_offset(self, tp: TopicPartition) -> int:
        """The base offset of the last acknowledged batch; NO_OFFSET if the broker did not return it."""
        return self._partitions[tp].last_offset

    def init(self) -> ProducerIdentity:
        """Get a producer id and epoch; fence earlier producers with this transactional id."""
        self._generation = self._cluster.generation
        self._identity = transactions.init_producer_id(
            self._cluster,
            self._transactional_id,
            timeout_ms=self._timeout_ms,
            two_phase=self._two_phase,
            keep_prepared=self._keep_prepared,
        )
        self._implicit = transactions.adds_partitions_implicitly(self._cluster)
        self._partitions.clear()
        self._written.clear()
        return self._identity

    def begin(self) -> None:
        """Start a transaction. No request is sent."""
        if self._transactional_id is None or self._in_transaction:
            raise LocalError("begin() needs a transactional id and no open transaction")
        self._in_transaction = True
        self._written.clear()
        self._records = self._bytes = 0

    def begin_next(self) -> bool:
        """Start the next transaction after one that another process ends, without a request to the coordinator.

        The end of a transaction increments the epoch by one, so the next epoch is known. If the transaction is still
        open, or the epoch differs for another reason, the first batch fails with Fenced. Return False if the next epoch
        is not known: then create a new producer.
        """
        if self._is_busy:
            raise LocalError("call flush() before begin_next()")
        following = self.identity._replace(epoch=self.identity.epoch + 1)
        # A transaction without records is not ended at the coordinator, and its epoch does not change.
        left = self._in_transaction and bool(self._written)
        if not left or not self._implicit or not self.is_known or following.epoch > _EPOCH_RAISED_MAX:
            return False
        self._reset_sequences(following)
        self._in_transaction = False
        self.begin()
        return True

    def send(self, tp: TopicPartition, batches: Sequence[bytearray]) -> None:
        """Queue batches made by `records.columns.encode`. The producer owns them and writes its id into them.

        Return when they are sent or in a short queue. An error may belong to an earlier batch.
        """
        if self._transactional_id is not None and not self._in_transaction:
            raise LocalError("call begin() before send()")
        partition = self._partitions.setdefault(tp, _Partition())
        for batch in batches:
            count = self._sign(batch, partition.next_sequence)
            partition.next_sequence = increment_sequence(partition.next_sequence, count)
            partition.waiting.append(batch)
            self._queued_bytes += len(batch)
        if self._queued_bytes >= REQUEST_BYTES:
            self._add_partitions()
            self._dispatch()
        while self._queued_bytes >= _QUEUED_BYTES_MAX:
            self._send_and_receive()

    def flush(self) -> Acknowledged:
        """Wait until all batches are acknowledged by all in-sync replicas."""
        while self._is_busy:
            self._send_and_receive()
        return self.acknowledged

    @property
    def _is_busy(self) -> bool:
        return bool(self._requests) or any(one.waiting or one.failed for one in self._partitions.values())

    def close(self) -> None:
        """Discard all batches without waiting. An open transaction stays open. Raise nothing.

        The connections are shared and stay open; they drop the responses that still arrive.
        """
        for request in self._requests:
            request.connection.discard(request.pending)
        self._requests.clear()
        self._partitions.clear()
        self._queued_bytes = 0
        self._identity = None

    def end(self, commit: bool) -> TransactionEnd:
        """Commit or abort the transaction. Without records no request is sent."""
        if self._transactional_id is None or not self._in_transaction:
            raise LocalError("end() needs an open transaction")
        sure = True
        if commit:
            self.flush()
        else:
            sure = self._drop_unsent()
        result = TransactionEnd.ENDED
        if self._written:
            result, following = transactions.end(
                self._cluster, self._transactional_id, self.identity, commit, self._implicit
            )
            self._reset_sequences(following)
            if result is TransactionEnd.ENDED and not sure and not self._implicit:
                self.init()
        self._in_transaction = False
        return result

    def _reset_sequences(self, following: ProducerIdentity) -> None:
        """Set the identity of the next transaction. With a new epoch the sequence numbers restart at 0."""
        if following == self._identity:
            for partition in self._partitions.values():
                partition.added = False
        else:
            self._partitions.clear()
        self._identity = following

    def _drop_unsent(self) -> bool:
        """Discard waiting batches and wait for those in flight, so that no record is written after the end.

        Return False if it is unknown whether a batch was stored, and therefore which sequence number is next.
        """
        for partition in self._partitions.values():
            if partition.waiting:
                partition.next_sequence = int.from_bytes(partition.waiting[0][_SEQUENCE], "big")
                partition.waiting.clear()
        self._queued_bytes = 0
        sure = True
        while self._requests:
            batches = self._requests[0].batches
            try:
                self._receive()
            except ClientError:
                sure = False
            sure = sure and not any(self._partitions[tp].waiting for tp in batches)
        for partition in self._partitions.values():
            sure = sure and not partition.failed
            partition.failed.clear()
            partition.waiting.clear()
        self._queued_bytes = 0
        return sure

    def _sign(self, batch: bytearray, sequence: int) -> int:
        identity = self.identity
        batch[_PRODUCER_ID] = identity.producer_id.to_bytes(8, "big")
        batch[_PRODUCER_EPOCH] = identity.epoch.to_bytes(2, "big")
        batch[_SEQUENCE] = sequence.to_bytes(4, "big")
        if self._transactional_id is not None:
            batch[ATTRIBUTES_OFFSET + 1] |= TRANSACTIONAL_MASK
        crc = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
        batch[CRC_OFFSET : CRC_OFFSET + 4] = crc.to_bytes(4, "big")
        return int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big")

    # --- requests

    def _send_and_receive(self) -> None:
        """Send what can be sent, then receive one response."""
        self._add_partitions()
        problem = self._dispatch()
        if self._requests:
            self._receive()
        elif problem is not None:
            self._back_off(problem)

    def _add_partitions(self) -> None:
        if self._transactional_id is None or self._implicit:
            return
        new = [tp for tp, one in self._partitions.items() if one.waiting and not one.added]
        if new:
            transactions.add_partitions(self._cluster, self._transactional_id, self.identity, new)
            self._written.update(new)
            for tp in new:
                self._partitions[tp].added = True

    def _dispatch(self) -> ClientError | None:
        """Send requests to the leaders; return the error of a partition that could not be sent, if any."""
        problem: ClientError | None = None
        while True:
            by_leader: dict[int, list[TopicPartition]] = {}
            for tp, partition in self._partitions.items():
                if partition.ready:
                    try:
                        by_leader.setdefault(self._cluster.leader(tp).leader, []).append(tp)
                    except (ConnectionLost, RetriableError) as error:
                        problem = error
            sent = False
            for node, ready in by_leader.items():
                try:
                    sent = self._send_to(node, ready) or sent
                except (ConnectionLost, RetriableError) as error:
                    problem = error
                    for tp in ready:
                        self._cluster.forget_topic(tp.topic)
            if not sent:
                return problem

    def _send_to(self, node: int, ready: list[TopicPartition]) -> bool:
        connection = self._cluster.connection(node)
        if not self.is_known:
            # Another producer may have this id there: its batches would look like duplicates of that one.
            raise ClusterReplaced(
                f"another cluster responds at {connection.address} since this producer was started: write again what "
                "was not acknowledged before"
            )
        if sum(request.connection is connection for request in self._requests) >= IN_FLIGHT_MAX:
            return False
        batches: dict[TopicPartition, bytearray] = {}
        size = 0
        for tp in ready:
            if size >= REQUEST_BYTES:
                break
            batches[tp] = self._partitions[tp].waiting[0]
            size += len(batches[tp])
        request = self._request(batches)
        pending = connection.send(request, newest=self._newest(request))
        self._written.update(batches)
        for tp in batches:
            self._partitions[tp].waiting.popleft()
            self._partitions[tp].in_flight += 1
        self._queued_bytes -= size
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        self._requests.append(_Request(connection, pending, batches, names))
        return True

    def _request(self, batches: dict[TopicPartition, bytearray]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for tp, batch in batches.items():
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = TopicProduceData(
                    name=tp.topic, topic_id=self._cluster.topic_id(tp.topic), partition_data=[]
                )
            topic.partition_data.append(PartitionProduceData(index=tp.partition, records=batch))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=_ALL_REPLICAS,
            timeout_ms=self._cluster.settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _newest(self, request: ProduceRequest) -> int | None:
        if self._transactional_id is not None and not self._implicit:
            return _EXPLICIT_NEWEST
        return None if all(topic.topic_id.int for topic in request.topic_data) else _NAMES_NEWEST

    # --- responses

    def _receive(self) -> None:
        request = self._requests.popleft()
        for tp in request.batches:
            self._partitions[tp].in_flight -= 1
        try:
            response = request.connection.receive(request.pending, ProduceResponse, extra_timeout_s=_SLACK_S)
        except ConnectionLost as error:
            for tp, batch in request.batches.items():
                self._failed(tp, batch, error)
            return
        results = {
            TopicPartition(topic.name or request.names.get(topic.topic_id, ""), one.index): one
            for topic in response.responses
            for one in topic.partition_responses
        }
        for tp, batch in request.batches.items():
            self._take(tp, batch, results.get(tp), request.connection.address)

    def _take(
        self, tp: TopicPartition, batch: bytearray, result: PartitionProduceResponse | None, address: str
    ) -> None:
        what = f"producing to {tp} at {address}"
        code = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else result.error_code
        partition = self._partitions[tp]
        if code in _STORED:
            partition.last_offset = NO_OFFSET if result is None or code else result.base_offset
            self._records += int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big")
            self._bytes += len(batch)
            if not partition.failed:
                partition.retry = None
        elif code in _FENCED:
            raise Fenced(what, code)
        elif is_retriable(code):
            self._failed(tp, batch, RetriableError(f"{what}: {error_name(code)}"))
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.failed:
            self._failed(tp, batch, RetriableError(f"{what}: an earlier batch must be sent first"))
        elif code == ErrorCode.MESSAGE_TOO_LARGE:
            # The cached limit of the topic is outdated.
            self._cluster.forget_topic(tp.topic)
            raise Refused(what, code, _too_large(tp.topic, batch))
        else:
            raise Refused(what, code, None if result is None else result.error_message)

    def _failed(self, tp: TopicPartition, batch: bytearray, why: ClientError) -> None:
        """Keep a failed batch. When no batch of its partition is in flight, wait and queue the failed ones first."""
        partition = self._partitions[tp]
        partition.failed.append(batch)
        self._cluster.forget_topic(tp.topic)
        if partition.retry is None:
            partition.retry = self._cluster.retry(f"producing to {tp}")
        if partition.in_flight == 0:
            partition.retry.backoff(why)
            # Responses are received in the order of the requests: failed batches are in order of sequence numbers.
            partition.waiting.extendleft(reversed(partition.failed))
            self._queued_bytes += sum(map(len, partition.failed))
            partition.failed.clear()

    def _back_off(self, problem: ClientError) -> None:
        """Wait before the next attempt: nothing is in flight and nothing could be sent."""
        tp = next(tp for tp, one in self._partitions.items() if one.waiting)
        partition = self._partitions[tp]
        if partition.retry is None:
            partition.retry = self._cluster.retry(f"producing to {tp}")
        partition.retry.backoff(problem)


def _too_large(topic: str, batch: bytearray) -> str:
    records = int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big")
    size = f"has {len(batch)} bytes, more than max.message.bytes of topic {topic} allows"
    if records == 1:
        return f"the batch of a single record {size}: increase that setting, or write smaller records"
    return f"a batch of {records} records {size}: decrease kafka.batch.size"

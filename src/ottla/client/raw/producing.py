"""Producing batches as bytes: signed, in order, without loss and without doubles, up to five requests under way.

Batches wait in one queue per partition. A request to a leader takes at most one batch of each partition, as the
protocol demands. When a batch comes back with "not here" or "later", the partition rests until everything of it that is
under way has come back; then those that failed go again, oldest first, with their old sequence numbers, so that a
broker that has stored one already recognises it. Used by one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.ids import TopicPartition, Uuid
from ottla.client.raw import transactions
from ottla.client.raw.connection import Connection, Ticket
from ottla.client.raw.errors import (
    ClientError,
    ClusterReplaced,
    ConnectionLost,
    Fenced,
    Refused,
    TryAgain,
    code_name,
    is_retriable,
)
from ottla.client.raw.offsets import NO_OFFSET
from ottla.client.raw.patience import Patience
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
"""A broker remembers the last five batches of a producer in a partition."""
REQUEST_BYTES = 1 << 20
"""A request is closed when its batches pass this; one batch may be larger."""
_QUEUED_BYTES_MAX = 4 * REQUEST_BYTES
_ALL_REPLICAS = -1
_SLACK_S = 5.0
"""A broker that gives up waiting for its replicas after the request's timeout should still be heard."""
_EXPLICIT_NEWEST = 11
"""The newest Produce of the generation that adds partitions to a transaction first."""
_NAMES_NEWEST = 12
_PRODUCER_ID, _PRODUCER_EPOCH, _SEQUENCE = slice(43, 51), slice(51, 53), slice(53, 57)
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_STORED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_EPOCH_RAISED_MAX = (1 << 15) - 3
"""Beyond, the coordinator gives the producer a new id instead of a higher epoch."""


class Acknowledged(NamedTuple):
    """What has been stored since the transaction began, or since the producer was made."""

    records: int
    bytes: int


@dataclass(slots=True)
class _Partition:
    """What waits to go to a partition, and what is on its way."""

    next_sequence: int = 0
    waiting: deque[bytearray] = field(default_factory=deque)
    under_way: int = 0
    failed: list[bytearray] = field(default_factory=list)
    patience: Patience | None = None
    added: bool = False
    last_offset: int = NO_OFFSET

    @property
    def ready(self) -> bool:
        return bool(self.waiting) and not self.failed


class _Request(NamedTuple):
    connection: Connection
    ticket: Ticket
    batches: dict[TopicPartition, bytearray]
    names: dict[Uuid, str]
    """Of the topics, which newer answers tell by id only."""


class RawProducer:
    """Sends batches; transactional if it has an id.

    `init` first. With a transactional id: `begin`, `send` ..., then `end`; or `flush` and leave it to another process
    to end the transaction, which needs the transactional id and `identity`. An error is final: `close` this producer,
    or `end` its transaction, and make a new one.
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
        """Who signs; raises LocalError before `init`."""
        if self._identity is None:
            raise LocalError("init() comes first: it gives the producer its id")
        return self._identity

    @property
    def acknowledged(self) -> Acknowledged:
        return Acknowledged(self._records, self._bytes)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Where something was sent in this transaction."""
        return sorted(self._written)

    @property
    def is_known(self) -> bool:
        """Whether it is still the cluster that has given the producer its id."""
        return self._generation == self._cluster.generation

    def last_offset(self, tp: TopicPartition) -> int:
        """Where the last batch that was acknowledged begins; NO_OFFSET if the broker did not say."""
        return self._partitions[tp].last_offset

    def init(self) -> ProducerIdentity:
        """Get an id, and fence whoever had this transactional id before."""
        self._generation = self._cluster.generation
        self._identity = transactions.initialise(
            self._cluster,
            self._transactional_id,
            timeout_ms=self._timeout_ms,
            two_phase=self._two_phase,
            keep_prepared=self._keep_prepared,
        )
        self._implicit = transactions.joins_by_writing(self._cluster)
        self._partitions.clear()
        self._written.clear()
        return self._identity

    def begin(self) -> None:
        """Start a transaction; nothing is sent for that."""
        if self._transactional_id is None or self._in_transaction:
            raise LocalError("begin() needs a transactional id and no open transaction")
        self._in_transaction = True
        self._written.clear()
        self._records = self._bytes = 0

    def begin_next(self) -> bool:
        """Start a transaction after one that was left to another process, without asking whether that has ended it.

        Every end raises the epoch by one, so what the next one is signed with is known. If the other is still open, or
        the epoch another one for whatever reason, the first batch is refused as Fenced. False if there is no telling:
        then it takes a new producer.
        """
        if self._is_busy:
            raise LocalError("flush() comes before begin_next()")
        following = self.identity._replace(epoch=self.identity.epoch + 1)
        # A transaction without a record may have no end, and then its epoch stays.
        left = self._in_transaction and bool(self._written)
        if not left or not self._implicit or not self.is_known or following.epoch > _EPOCH_RAISED_MAX:
            return False
        self._start_over(following)
        self._in_transaction = False
        self.begin()
        return True

    def send(self, tp: TopicPartition, batches: Sequence[bytearray]) -> None:
        """Queue batches made by `records.columns.encode`; they are signed in place, so they are the producer's now.

        Returns when they are on their way or in a short queue. An error may be that of an earlier batch.
        """
        if self._transactional_id is not None and not self._in_transaction:
            raise LocalError("begin() comes before send()")
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
            self._pump()

    def flush(self) -> Acknowledged:
        """Wait until everything sent is stored by all in-sync replicas."""
        while self._is_busy:
            self._pump()
        return self.acknowledged

    @property
    def _is_busy(self) -> bool:
        return bool(self._requests) or any(one.waiting or one.failed for one in self._partitions.values())

    def close(self) -> None:
        """Give up what waits and what is under way. Waits for nothing and raises nothing; a transaction stays open.

        The connections live on, so they are told that nobody takes the answers still to come.
        """
        for request in self._requests:
            request.connection.forget(request.ticket)
        self._requests.clear()
        self._partitions.clear()
        self._queued_bytes = 0
        self._identity = None

    def end(self, commit: bool) -> TransactionEnd:
        """End the transaction here and now; a transaction without a record just ends."""
        if self._transactional_id is None or not self._in_transaction:
            raise LocalError("end() needs an open transaction")
        sure = True
        if commit:
            self.flush()
        else:
            sure = self._abandon()
        outcome = TransactionEnd.ENDED
        if self._written:
            outcome, following = transactions.end(
                self._cluster, self._transactional_id, self.identity, commit, self._implicit
            )
            self._start_over(following)
            if outcome is TransactionEnd.ENDED and not sure and not self._implicit:
                self.init()
        self._in_transaction = False
        return outcome

    def _start_over(self, following: ProducerIdentity) -> None:
        """A raised epoch starts its sequences at 0; without one they go on."""
        if following == self._identity:
            for partition in self._partitions.values():
                partition.added = False
        else:
            self._partitions.clear()
        self._identity = following

    def _abandon(self) -> bool:
        """Give up what waits, await what is under way, so that no record comes after the end.

        False if it is not known of some batch whether it is stored, and so which sequence number is next.
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
        crc: int = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
        batch[CRC_OFFSET : CRC_OFFSET + 4] = crc.to_bytes(4, "big")
        return int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big")

    # --- requests

    def _pump(self) -> None:
        """Send what may go, then take one answer."""
        self._add_partitions()
        problem = self._dispatch()
        if self._requests:
            self._receive()
        elif problem is not None:
            self._rest(problem)

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
        """Requests to all leaders that have room; why some partition could not be served, if so."""
        problem: ClientError | None = None
        while True:
            by_leader: dict[int, list[TopicPartition]] = {}
            for tp, partition in self._partitions.items():
                if partition.ready:
                    try:
                        by_leader.setdefault(self._cluster.leader(tp).leader, []).append(tp)
                    except (ConnectionLost, TryAgain) as error:
                        problem = error
            sent = False
            for node, ready in by_leader.items():
                try:
                    sent = self._send_to(node, ready) or sent
                except (ConnectionLost, TryAgain) as error:
                    problem = error
                    for tp in ready:
                        self._cluster.forget_topic(tp.topic)
            if not sent:
                return problem

    def _send_to(self, node: int, ready: list[TopicPartition]) -> bool:
        connection = self._cluster.connection(node)
        if not self.is_known:
            # Its id may be another producer's there, and its batches would be taken for that one's, stored before.
            raise ClusterReplaced(
                f"another cluster answers at {connection.address} since this producer has started: what was not "
                "stored before has to be written again"
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
        ticket = connection.send(request, newest=self._newest(request))
        self._written.update(batches)
        for tp in batches:
            self._partitions[tp].waiting.popleft()
            self._partitions[tp].under_way += 1
        self._queued_bytes -= size
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        self._requests.append(_Request(connection, ticket, batches, names))
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

    # --- answers

    def _receive(self) -> None:
        request = self._requests.popleft()
        for tp in request.batches:
            self._partitions[tp].under_way -= 1
        try:
            answer = request.connection.receive(request.ticket, ProduceResponse, patience_s=_SLACK_S)
        except ConnectionLost as error:
            for tp, batch in request.batches.items():
                self._failed(tp, batch, error)
            return
        results = {
            TopicPartition(topic.name or request.names.get(topic.topic_id, ""), one.index): one
            for topic in answer.responses
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
                partition.patience = None
        elif code in _FENCED:
            raise Fenced(what, code)
        elif is_retriable(code):
            self._failed(tp, batch, TryAgain(f"{what}: {code_name(code)}"))
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.failed:
            self._failed(tp, batch, TryAgain(f"{what}: an earlier batch has to go first"))
        elif code == ErrorCode.MESSAGE_TOO_LARGE:
            # What was heard of the topic's limit, if anything, is not true any more.
            self._cluster.forget_topic(tp.topic)
            raise Refused(what, code, _too_large(tp.topic, batch))
        else:
            raise Refused(what, code, None if result is None else result.error_message)

    def _failed(self, tp: TopicPartition, batch: bytearray, why: ClientError) -> None:
        """Keep a batch for another attempt; when all of its partition are back, wait and put them in front."""
        partition = self._partitions[tp]
        partition.failed.append(batch)
        self._cluster.forget_topic(tp.topic)
        if partition.patience is None:
            partition.patience = self._cluster.patience(f"producing to {tp}")
        if partition.under_way == 0:
            partition.patience.again(why)
            # Answers are taken in the order of the requests, so the failed ones are in the order of their signing.
            partition.waiting.extendleft(reversed(partition.failed))
            self._queued_bytes += sum(map(len, partition.failed))
            partition.failed.clear()

    def _rest(self, problem: ClientError) -> None:
        """Nothing is under way and nothing could be sent."""
        tp = next(tp for tp, one in self._partitions.items() if one.waiting)
        partition = self._partitions[tp]
        if partition.patience is None:
            partition.patience = self._cluster.patience(f"producing to {tp}")
        partition.patience.again(problem)


def _too_large(topic: str, batch: bytearray) -> str:
    records = int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big")
    told = f"has {len(batch)} bytes, more than max.message.bytes of topic {topic} allows"
    if records == 1:
        return f"a record, as a batch, {told}: raise that, or write smaller ones"
    return f"a batch of {records} records {told}: lower kafka.batch.size"

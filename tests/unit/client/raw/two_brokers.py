"""Two fake brokers: one leads the only partition, one coordinates all transactions."""

from __future__ import annotations

import uuid
from array import array

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.records.batch import read_header
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.list_transactions import TransactionState as Listed
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.schema import Message

from .fake_brokers import FakeBroker

TOPIC_ID = uuid.UUID(int=7)
TP = TopicPartition("t", 0)
ONE, TWO = 1, 2


def batches_of(count: int, size: int = 100) -> list[bytearray]:
    """One record a batch."""
    column = columns.BinaryColumn(array("i", range(0, count * size + 1, size)).tobytes(), bytes(count * size))
    return columns.encode(column, count, timestamp_ms=1, max_batch_bytes=1)


class TwoBrokers:
    """A partition's leader is `leader`, the coordinator `coordinator`; what the other broker is asked it refuses.

    The leader stores batches whose sequence follows, knows those it has, and refuses the rest, as brokers do. Every
    InitProducerId raises the epoch, and so does the end of a transaction.
    """

    def __init__(self) -> None:
        self.exists = True
        """Whether there is a topic."""
        self.leader = ONE
        self.coordinator = ONE
        self.moves_after = -1
        """Produce requests until the leader moves."""
        self.hangs_up = False
        """The old leader, or coordinator, ends its connection instead of refusing."""
        self.refusals: list[int] = []
        """The next batches are answered with these errors, and not stored."""
        self.denied: set[str] = set()
        """Transactional ids that are not authorized."""
        self.not_over = 0
        """So many more times the coordinator says that the last transaction is not over yet."""
        self.listing_error = 0
        self.open: dict[int, dict[str, int]] = {ONE: {}, TWO: {}}
        """The open transactions that each broker lists, and their producers; who is not here hangs up instead."""
        self.throttles_ms: list[int] = []
        """The next fetches are answered with these times to wait, and no partition."""
        self.batch_limit: int | None = None
        """The value of max.message.bytes; None if it may not be described."""
        self.epoch = -1
        self.stored: list[int] = []
        """The sequence numbers of the newest epoch that has written."""
        self.stored_epoch = 0
        self.asked: list[tuple[int, type[Message]]] = []
        self.brokers = {node: FakeBroker(self._handler(node)) for node in (ONE, TWO)}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def _handler(self, node: int):  # type: ignore[no-untyped-def]
        def answer(request: Message) -> Message | None:
            self.asked.append((node, type(request)))
            match request:
                case MetadataRequest():
                    return self._metadata()
                case InitProducerIdRequest():
                    self.epoch += 1
                    return InitProducerIdResponse(producer_id=5, producer_epoch=self.epoch)
                case ListTransactionsRequest():
                    return self._open(node)
                case FindCoordinatorRequest():
                    return FindCoordinatorResponse(
                        node_id=self.coordinator, host="127.0.0.1", port=self.brokers[self.coordinator].port
                    )
                case AddPartitionsToTxnRequest() | EndTxnRequest() | DescribeTransactionsRequest():
                    return self._coordinate(request, node)
                case DescribeConfigsRequest():
                    return self._configs()
                case FetchRequest():
                    return self._fetch(self._error(node))
                case ListOffsetsRequest():
                    return self._list(self._error(node))
                case ProduceRequest():
                    return self._produce(node, request)
            return None

        return answer

    def _error(self, node: int) -> int:
        return ErrorCode.NONE if node == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _metadata(self) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port)
                for node, broker in self.brokers.items()
            ],
            topics=[
                MetadataResponseTopic(
                    error_code=ErrorCode.NONE if self.exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    name="t",
                    topic_id=TOPIC_ID,
                    partitions=[MetadataResponsePartition(leader_id=self.leader)],
                )
            ],
        )

    def _configs(self) -> DescribeConfigsResponse:
        if self.batch_limit is None:
            return DescribeConfigsResponse(
                results=[DescribeConfigsResult(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
            )
        config = DescribeConfigsResourceResult(name="max.message.bytes", value=str(self.batch_limit))
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[config])])

    def _fetch(self, error: int) -> FetchResponse:
        if self.throttles_ms:
            return FetchResponse(throttle_time_ms=self.throttles_ms.pop(0))
        data = PartitionData(error_code=error, high_watermark=1, records=bytes(batches_of(1)[0]))
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    def _list(self, error: int) -> ListOffsetsResponse:
        one = ListOffsetsPartitionResponse(error_code=error, offset=9)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])

    def _open(self, node: int) -> ListTransactionsResponse | None:
        if node not in self.open:
            return None
        found = [Listed(transactional_id=name, producer_id=who) for name, who in self.open[node].items()]
        return ListTransactionsResponse(error_code=self.listing_error, transaction_states=found)

    def _coordinate(self, request: Message, node: int) -> Message | None:
        error = ErrorCode.NONE if node == self.coordinator else ErrorCode.NOT_COORDINATOR
        if error and self.hangs_up:
            return None
        if not error and self.not_over:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
            self.not_over -= 1
        match request:
            case AddPartitionsToTxnRequest():
                one = AddPartitionsToTxnPartitionResult(partition_error_code=error)
                topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[one])
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
            case DescribeTransactionsRequest():
                state = TransactionState(error_code=error, transaction_state="Ongoing", producer_id=5)
                return DescribeTransactionsResponse(transaction_states=[state])
            case EndTxnRequest() if not error and request.transactional_id in self.denied:
                error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        self.epoch += not error
        return EndTxnResponse(error_code=error, producer_id=5, producer_epoch=self.epoch)

    def _produce(self, node: int, request: ProduceRequest) -> ProduceResponse | None:
        if self.moves_after == 0:
            self.leader = TWO
        self.moves_after -= 1
        error = self._error(node)
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        header = read_header(records)
        sequence = header.base_sequence
        if header.producer_epoch > self.stored_epoch:
            self.stored, self.stored_epoch = [], header.producer_epoch
        if error and self.hangs_up:
            return None
        if not error and self.refusals:
            error = self.refusals.pop(0)
        if not error and len(records) > (self.batch_limit or 1 << 30):
            error = ErrorCode.MESSAGE_TOO_LARGE
        if not error and sequence not in self.stored:
            if sequence == len(self.stored):
                self.stored.append(sequence)
            else:
                error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        one = PartitionProduceResponse(error_code=error)
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[one])]
        )

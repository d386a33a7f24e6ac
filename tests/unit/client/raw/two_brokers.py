"""Two brokers of a test's own and one partition, which one of them leads."""

from __future__ import annotations

import uuid
from array import array

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.records.batch import read_header
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
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
    """A partition's leader is `leader`; what the other broker is asked it refuses.

    The leader stores batches whose sequence follows, knows those it has, and refuses the rest, as brokers do.
    """

    def __init__(self) -> None:
        self.leader = ONE
        self.moves_after = -1
        """Produce requests until the leader moves."""
        self.hangs_up = False
        """The old leader ends its connection instead of refusing."""
        self.throttles_ms: list[int] = []
        """The next fetches are answered with these times to wait, and no partition."""
        self.batch_limit: int | None = None
        """What max.message.bytes is; None if nobody may know."""
        self.stored: list[int] = []
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
                    return InitProducerIdResponse(producer_id=5, producer_epoch=0)
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
                    name="t", topic_id=TOPIC_ID, partitions=[MetadataResponsePartition(leader_id=self.leader)]
                )
            ],
        )

    def _configs(self) -> DescribeConfigsResponse:
        if self.batch_limit is None:
            return DescribeConfigsResponse(
                results=[DescribeConfigsResult(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
            )
        told = DescribeConfigsResourceResult(name="max.message.bytes", value=str(self.batch_limit))
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[told])])

    def _fetch(self, error: int) -> FetchResponse:
        if self.throttles_ms:
            return FetchResponse(throttle_time_ms=self.throttles_ms.pop(0))
        data = PartitionData(error_code=error, high_watermark=1, records=bytes(batches_of(1)[0]))
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    def _list(self, error: int) -> ListOffsetsResponse:
        one = ListOffsetsPartitionResponse(error_code=error, offset=9)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])

    def _produce(self, node: int, request: ProduceRequest) -> ProduceResponse | None:
        if self.moves_after == 0:
            self.leader = TWO
        self.moves_after -= 1
        error = self._error(node)
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        sequence = read_header(records).base_sequence
        if error and self.hangs_up:
            return None
        if not error and len(records) > (self.batch_limit or 1 << 30):
            error = ErrorCode.MESSAGE_TOO_LARGE
        if not error and sequence not in self.stored:
            if sequence == len(self.stored):
                self.stored.append(sequence)
            else:
                error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        one = PartitionProduceResponse(error_code=error)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[one])])

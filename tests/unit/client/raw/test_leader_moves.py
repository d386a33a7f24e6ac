"""A partition moves from one broker to another while it is read and written."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Iterator

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientSettings, Cluster, RawProducer, TimedOut
from ottla.records import columns
from ottla.records.batch import read_header
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

    def _fetch(self, error: int) -> FetchResponse:
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
        if not error and sequence not in self.stored:
            if sequence == len(self.stored):
                self.stored.append(sequence)
            else:
                error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        one = PartitionProduceResponse(error_code=error)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[one])])


@pytest.fixture
def brokers() -> Iterator[TwoBrokers]:
    made = TwoBrokers()
    yield made
    for broker in made.brokers.values():
        broker.close()


@pytest.fixture
def cluster(brokers: TwoBrokers) -> Iterator[Cluster]:
    options = {
        "bootstrap.servers": brokers.bootstrap,
        "retry.backoff.ms": 1,
        "default.api.timeout.ms": 5_000,
    }
    with Cluster(ClientSettings.from_options(options)) as made:
        yield made


def test_reading_follows_the_leader(brokers: TwoBrokers, cluster: Cluster) -> None:
    assert cluster.list_offsets({TP: -1}) == {TP: (9, -1)}
    assert cluster.fetch(TP, 0).end(0) == 1
    brokers.leader = TWO
    assert cluster.fetch(TP, 0).end(0) == 1
    brokers.leader = ONE
    assert cluster.list_offsets({TP: -1}) == {TP: (9, -1)}
    fetches = [node for node, request in brokers.asked if request is FetchRequest]
    assert fetches == [ONE, ONE, TWO]


@pytest.mark.parametrize("moves_after", range(8))
@pytest.mark.parametrize("hangs_up", [False, True])
def test_writing_follows_the_leader_in_order(
    brokers: TwoBrokers, cluster: Cluster, moves_after: int, hangs_up: bool
) -> None:
    """Up to five batches are under way when the leader moves: each arrives once, in its place."""
    brokers.moves_after, brokers.hangs_up = moves_after, hangs_up
    producer = RawProducer(cluster)
    producer.init()
    producer.send(TP, batches_of(12))
    assert producer.flush().records == 12
    assert brokers.stored == list(range(12))


def test_a_partition_without_a_leader_is_told_in_time(brokers: TwoBrokers) -> None:
    brokers.leader = -1
    options = {"bootstrap.servers": brokers.bootstrap, "default.api.timeout.ms": 50, "retry.backoff.ms": 1}
    with Cluster(ClientSettings.from_options(options)) as cluster:
        with pytest.raises(TimedOut, match="t-0 has no leader"):
            cluster.fetch(TP, 0)
        producer = RawProducer(cluster)
        producer.init()
        producer.send(TP, batches_of(1))
        with pytest.raises(TimedOut, match="t-0 has no leader"):
            producer.flush()

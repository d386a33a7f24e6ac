"""Quotas as clients see them: throttle times, and connections that are not read meanwhile."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.local.cluster import LocalCluster
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.frames import request_frame
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Message
from tests.support.clients import fresh
from tests.support.raw import CLOSED, Address, Closed, RawClient
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)
QUOTA_EXCEEDED = 89
ROUND_TRIPS = 30
numbers = count(1)


class QuotaClient(RawClient):
    """A client with an id of its own, and so with a quota of its own."""

    def __init__(self, address: Address, client_id: str | None = None) -> None:
        super().__init__(address)
        self.address = address
        self.client_id = client_id or f"quota-{next(numbers)}"

    def call(self, request: Message, version: int, response: type[R]) -> R:
        answer = self.ask(request, version, response, client_id=self.client_id)
        assert not isinstance(answer, Closed)
        return answer

    def limit(self, **values: float) -> None:
        """Set quotas of this client id, from another connection."""
        with RawClient(self.address) as other:
            set_quotas(other, {"client-id": self.client_id}, **values)

    @property
    def readable(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])


def set_quotas(client: RawClient, entity: dict[str, str | None], **values: float | None) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()],
    )
    answer = client.ask(AlterClientQuotasRequest(entries=[entry]), 1, AlterClientQuotasResponse)
    assert not isinstance(answer, Closed)
    assert answer.entries[0].error_code == 0, answer


def create_topic(
    client: QuotaClient, partitions: int = 1, version: int = 7
) -> tuple[str, CreateTopicsResponse]:
    topic = fresh("quota")
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    return topic, client.call(request, version, CreateTopicsResponse)


def produce(topic: str, size: int) -> ProduceRequest:
    records = build_batch([NewRecord(None, bytes(size), (), 1_760_000_000_000)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def fetch(topic: str, session: int = 0, epoch: int = -1) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, session_id=session, session_epoch=epoch, topics=topics
    )


def assert_held_back(client: QuotaClient, address: Address) -> None:
    """A request of the client is not answered, while those that another client sends later are."""
    client.send(request_frame(ApiVersionsRequest(), 0, 77, client.client_id))
    with RawClient(address) as other:
        for _ in range(ROUND_TRIPS):
            assert not isinstance(other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse), Closed)
    assert not client.readable


def assert_released(client: QuotaClient) -> None:
    """The answer to the request of `assert_held_back` arrives."""
    assert not isinstance(client.read(18, 0, ApiVersionsResponse, 77), Closed)


@pytest.fixture
def address(broker: BrokerProcess) -> Address:
    return Address.parse(broker.bootstrap)


@pytest.mark.parametrize("version", [3, 8, 12])
def test_a_producer_that_ignores_its_throttle_time_is_held_back(address: Address, version: int) -> None:
    with QuotaClient(address) as client:
        topic, _ = create_topic(client)
        client.limit(producer_byte_rate=20_000)
        first = client.call(produce(topic, 100_000), version, ProduceResponse)
        second = client.call(produce(topic, 130_000), version, ProduceResponse)
        assert first.throttle_time_ms == 0
        assert 500 < second.throttle_time_ms < 5000
        assert second.responses[0].partition_responses[0].error_code == 0
        assert_held_back(client, address)
        assert_released(client)


@pytest.mark.parametrize("version", [7, 11])
def test_bulk_appends_are_counted(address: Address, version: int) -> None:
    """Similar requests that arrive together, the third and later ones in bulk."""
    with QuotaClient(address) as client:
        topic, _ = create_topic(client)
        client.limit(producer_byte_rate=1_000_000)
        warm = [client.call(produce(topic, 1000), version, ProduceResponse) for _ in range(3)]
        assert [each.throttle_time_ms for each in warm] == [0, 0, 0]
        client.limit(producer_byte_rate=5000)
        frames = [request_frame(produce(topic, 20_000), version, 100 + n, client.client_id) for n in range(4)]
        client.send(b"".join(frames))
        answers: list[Any] = [client.read(0, version, ProduceResponse, 100 + n) for n in range(4)]
        assert all(each.responses[0].partition_responses[0].error_code == 0 for each in answers)
        assert answers[-1].throttle_time_ms > 0
        assert_held_back(client, address)


def test_other_clients_are_not_throttled(address: Address) -> None:
    with QuotaClient(address) as client, QuotaClient(address) as other:
        topic, _ = create_topic(client)
        client.limit(producer_byte_rate=100)
        assert client.call(produce(topic, 50_000), 11, ProduceResponse).throttle_time_ms > 0
        assert other.call(produce(topic, 50_000), 11, ProduceResponse).throttle_time_ms == 0
        assert other.call(produce(topic, 50_000), 11, ProduceResponse).throttle_time_ms == 0


def test_a_throttled_fetch_is_empty_and_not_counted(address: Address) -> None:
    with QuotaClient(address) as client:
        topic, _ = create_topic(client)
        client.call(produce(topic, 15_000), 11, ProduceResponse)
        client.limit(consumer_byte_rate=2000)
        first = client.call(fetch(topic, epoch=0), 12, FetchResponse)
        assert first.throttle_time_ms == 0
        assert first.responses[0].partitions[0].records
        second = client.call(fetch(topic, first.session_id, 1), 12, FetchResponse)
        assert second.throttle_time_ms > 0
        assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, [])
        assert_held_back(client, address)
        assert_released(client)

    with QuotaClient(address) as client:
        client.limit(consumer_byte_rate=1_000_000)
        for _ in range(3):  # its bytes would be too many, if the throttled ones were counted
            assert client.call(fetch(topic), 4, FetchResponse).throttle_time_ms == 0


def test_a_throttled_first_fetch_creates_no_session(address: Address) -> None:
    with QuotaClient(address) as client:
        topic, _ = create_topic(client)
        client.call(produce(topic, 15_000), 11, ProduceResponse)
        client.limit(consumer_byte_rate=2000)
        assert client.call(fetch(topic), 12, FetchResponse).throttle_time_ms == 0
        throttled = client.call(fetch(topic, epoch=0), 12, FetchResponse)
        assert throttled.throttle_time_ms > 0
        assert throttled.session_id == 0


def test_a_consumer_with_a_small_quota_proceeds(address: Address) -> None:
    """A response has at most the bytes of ten seconds, so that it is not throttled for ever."""
    with QuotaClient(address) as client:
        topic, _ = create_topic(client)
        for _ in range(5):
            client.call(produce(topic, 1000), 11, ProduceResponse)
        client.limit(consumer_byte_rate=250)
        answer = client.call(fetch(topic), 12, FetchResponse)
        assert answer.throttle_time_ms == 0
        assert 1000 < len(answer.responses[0].partitions[0].records or b"") <= 2500


def test_time_of_requests(address: Address) -> None:
    with QuotaClient(address) as client:
        client.limit(request_percentage=1e-5)
        answer = client.call(MetadataRequest(topics=None), 12, MetadataResponse)
        assert 0 < answer.throttle_time_ms <= 1000
        versions = client.call(ApiVersionsRequest(), 2, ApiVersionsResponse)
        assert 0 < versions.throttle_time_ms <= 1000


@pytest.mark.parametrize("strict", [True, False])
def test_changes_of_partitions(address: Address, strict: bool) -> None:
    with QuotaClient(address) as client:
        client.limit(controller_mutation_rate=1.0)
        topic, first = create_topic(client, 15, version=6 if strict else 5)
        assert first.topics[0].error_code == 0
        if strict:
            assert first.throttle_time_ms == 0
            _, second = create_topic(client, 1, version=6)
            assert second.topics[0].error_code == QUOTA_EXCEEDED
            assert 0 < second.throttle_time_ms <= 4000
        else:
            assert 0 < first.throttle_time_ms <= 4000
        assert_held_back(client, address)
        assert_released(client)
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=30, assignments=None)], timeout_ms=10_000
        )
        added = client.call(more, 3 if strict else 2, CreatePartitionsResponse)
        assert added.results[0].error_code == 0
        with QuotaClient(address, client.client_id) as again:
            deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
            if strict:
                refused = again.call(deletion, 6, DeleteTopicsResponse)
                assert refused.responses[0].error_code == QUOTA_EXCEEDED
                assert refused.throttle_time_ms > 0
            else:
                deleted = again.call(
                    DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 4, DeleteTopicsResponse
                )
                assert deleted.responses[0].error_code == 0
                assert deleted.throttle_time_ms > 0


def test_a_broker_holds_clients_back_for_the_controller(tmp_path: Path) -> None:
    """The controller counts changes of all brokers; the broker of the client reads nothing meanwhile."""
    with LocalCluster(tmp_path, 3) as cluster:
        at = [Address.parse(cluster.address(node)) for node in range(3)]
        with QuotaClient(at[0]) as client:
            client.limit(controller_mutation_rate=1.0)
            create_topic(client, 15)
        for address in at:
            with QuotaClient(address, client.client_id) as client:
                _, answer = create_topic(client)
                assert answer.topics[0].error_code == QUOTA_EXCEEDED
                assert_held_back(client, address)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def test_connections_of_an_address(alone: BrokerProcess) -> None:
    address = Address.parse(alone.bootstrap)
    with RawClient(address) as client:
        set_quotas(client, {"ip": "127.0.0.1"}, connection_creation_rate=1)

        def refused() -> bool:
            with RawClient(address) as other:
                return other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse) is CLOSED

        assert [refused() for _ in range(10)].count(True) <= 1
        wait_until(refused, "a connection above the rate is refused")
        set_quotas(client, {"ip": "127.0.0.1"}, connection_creation_rate=None)
        assert not any(refused() for _ in range(20))


def test_connections_of_the_broker(tmp_path: Path) -> None:
    """The listener accepts no connections for a while; then it does again, and none is refused."""
    with BrokerProcess(tmp_path / "data", {"max.connection.creation.rate": "5"}) as process:
        address = Address.parse(process.bootstrap)
        sockets = [socket.create_connection((address.host, address.port)) for _ in range(60)]
        request = request_frame(ApiVersionsRequest(), 0, 1, "late")
        for each in sockets:
            each.sendall(request)
        waiting = len(sockets) - len(select.select(sockets, [], [], 1)[0])
        assert waiting
        for each in sockets:
            each.settimeout(20)
            assert each.recv(4)
            each.close()

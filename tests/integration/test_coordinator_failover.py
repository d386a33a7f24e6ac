"""Groups and transactions on three broker processes whose coordinator is killed, paused or stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base.errors import ErrorCode
from ottla.broker.coordination.coordinators import partition_of
from ottla.local.requests import request_once
from ottla.testing.cluster import Cluster
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.schema import Message
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)
BROKERS = (0, 1, 2)
PARTITIONS = 3
TIMEOUT_S = 60.0
REQUEST_S = 10.0
QUIET = {
    "log_level": 0,
    "error_cb": lambda _: None,
    "reconnect.backoff.max.ms": 200,
    # A client notices a paused broker by this time only.
    "socket.timeout.ms": 4000,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS), proxies=False) as cluster:
        yield cluster


def create(cluster: Cluster, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, PARTITIONS, len(BROKERS), config=settings)])[name].result(TIMEOUT_S)
    assert {cluster.leader(name, each) for each in range(PARTITIONS)} == set(BROKERS)


def coordinator(cluster: Cluster, topic: str, key: str) -> int:
    return cluster.wait_leader(topic, partition_of(key, 50))


def produce(cluster: Cluster, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **QUIET})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def retry(call: Callable[[], object], what: str) -> None:
    """Repeat a call of a client until it succeeds; an error that is not retriable is raised."""

    def succeeds() -> bool:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_until(succeeds, what, TIMEOUT_S)


class Member:
    """A consumer that commits after each record."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        self.values: list[int] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **QUIET,
            }
        )
        self.consumer.subscribe([topic])

    def read(self, count: int) -> None:
        """Read until there are that many values in total."""
        wait_until(partial(self._has_read, count), f"{count} records", TIMEOUT_S)

    def _has_read(self, count: int) -> bool:
        message = self.consumer.poll(0.1)
        if message is not None and message.error() is None:
            self.values.append(int(message.value()))
            self._commit(message.partition(), message.offset() + 1)
        return len(self.values) >= count

    def _commit(self, partition: int, offset: int) -> None:
        offsets = [TopicPartition("t", partition, offset)]
        retry(lambda: self.consumer.commit(offsets=offsets, asynchronous=False), "a commit")


def committed(cluster: Cluster, group: str) -> list[int]:
    """The committed offsets of all partitions."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, **QUIET})
    wanted = [TopicPartition("t", each) for each in range(PARTITIONS)]
    found = [each.offset for each in consumer.committed(wanted, timeout=TIMEOUT_S)]
    consumer.close()
    return found


@pytest.mark.parametrize("fault", ["kill", "pause", "stop"])
def test_a_group_survives_the_loss_of_its_coordinator(cluster: Cluster, fault: str) -> None:
    create(cluster, "t")
    produce(cluster, "t", range(30))
    member = Member(cluster, "t", "group")
    member.read(30)
    lost = coordinator(cluster, "__consumer_offsets", "group")
    getattr(cluster, fault)(lost)
    produce(cluster, "t", range(30, 60))
    member.read(60)
    assert sorted(member.values) == [*range(60)]
    if fault == "pause":
        cluster.resume(lost)
        cluster.wait_registered(BROKERS)
    else:
        cluster.restart(lost)
    member.consumer.close()
    assert committed(cluster, "group") == [20, 20, 20]


class Transactions:
    """A transactional producer and the offsets that it commits."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
                **QUIET,
            }
        )
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "copied", **QUIET})
        retry(lambda: self.producer.init_transactions(REQUEST_S), "a producer id")

    def write(self, values: range, offset: int) -> None:
        """Write to all partitions in one transaction, with an offset of a group."""
        self.producer.begin_transaction()
        for value in values:
            self.producer.produce("t", str(value).encode(), partition=value % PARTITIONS)
        assert self.producer.flush(TIMEOUT_S) == 0
        metadata = self._consumer.consumer_group_metadata()
        offsets = [TopicPartition("t", 0, offset)]
        retry(
            lambda: self.producer.send_offsets_to_transaction(offsets, metadata, REQUEST_S),
            "offsets in a transaction",
        )

    def commit(self) -> None:
        retry(lambda: self.producer.commit_transaction(REQUEST_S), "the end of a transaction")


def states(cluster: Cluster) -> dict[str, str]:
    """The states of all transactional ids that running brokers coordinate."""
    found: dict[str, str] = {}
    for node_id in cluster.running:
        host, port = cluster.address(node_id).split(":")
        response = request_once(
            host, int(port), ListTransactionsRequest(), ListTransactionsResponse, 1, TIMEOUT_S
        )
        for each in () if response is None else response.transaction_states:
            found[each.transactional_id] = each.transaction_state
    return found


def test_a_commit_that_was_decided_is_completed_by_the_next_coordinator(cluster: Cluster) -> None:
    # With min.insync.replicas=3 no marker is written while a broker is down: the commit stays prepared.
    create(cluster, "t", min_insync_replicas="3")
    transactions = Transactions(cluster, "copy")
    transactions.write(range(30), 7)
    lost = coordinator(cluster, "__transaction_state", "copy")
    other = next(each for each in BROKERS if each != lost)
    cluster.kill(other)
    transactions.commit()
    assert states(cluster) == {"copy": "PrepareCommit"}
    cluster.kill(lost)
    cluster.restart(other)
    wait_until(lambda: states(cluster) == {"copy": "PrepareCommit"}, "the next coordinator", TIMEOUT_S)
    cluster.restart(lost)
    wait_until(lambda: states(cluster) == {"copy": "CompleteCommit"}, "the markers", TIMEOUT_S)
    member = Member(cluster, "t", "readers")
    member.read(30)
    transactions.write(range(30, 60), 9)
    transactions.commit()
    member.read(60)
    assert sorted(member.values) == [*range(60)]
    member.consumer.close()
    wait_until(lambda: committed(cluster, "copied")[0] == 9, "the offsets", TIMEOUT_S)


def test_a_transaction_survives_the_loss_of_its_coordinator_and_of_a_leader(cluster: Cluster) -> None:
    create(cluster, "t")
    transactions = Transactions(cluster, "copy")
    for start, lost in ((0, "__transaction_state"), (30, "t")):
        transactions.write(range(start, start + 30), start + 7)
        node_id = coordinator(cluster, lost, "copy") if lost != "t" else cluster.leader("t", 1)
        cluster.kill(node_id)
        transactions.commit()
        cluster.restart(node_id)
    member = Member(cluster, "t", "readers")
    member.read(60)
    assert sorted(member.values) == [*range(60)]
    member.consumer.close()
    wait_until(lambda: committed(cluster, "copied")[0] == 37, "the offsets", TIMEOUT_S)


def test_a_coordinator_without_its_replicas_responds_within_its_timeout() -> None:
    topics = [OffsetCommitRequestTopic(name="any", partitions=[OffsetCommitRequestPartition()])]
    with Cluster(len(BROKERS), proxies=False, config={"offsets.commit.timeout.ms": "500"}) as cluster:
        create(cluster, "any")
        produce(cluster, "any", range(1))
        survivor = cluster.wait_leader("any")

        def own(topic: str) -> str:
            """A group or transactional id that the survivor coordinates."""
            for kind in (0, 1):
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["first"])
                ask(cluster, survivor, request, FindCoordinatorResponse, 4)
            return next(
                f"id-{number}"
                for number in range(1000)
                if coordinator(cluster, topic, f"id-{number}") == survivor
            )

        commit = OffsetCommitRequest(group_id=own("__consumer_offsets"), topics=topics)
        begin = InitProducerIdRequest(
            transactional_id=own("__transaction_state"), transaction_timeout_ms=60_000
        )

        def codes() -> tuple[int, int]:
            committed = ask(cluster, survivor, commit, OffsetCommitResponse, 8)
            begun = ask(cluster, survivor, begin, InitProducerIdResponse, 4)
            return committed.topics[0].partitions[0].error_code, begun.error_code

        wait_until(lambda: codes() == (0, 0), "the coordinators", TIMEOUT_S)
        for node_id in set(BROKERS) - {survivor}:
            cluster.brokers[node_id].send_kill()
        codes()
        assert codes() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        cluster.restart_all(set(BROKERS) - {survivor})
        wait_until(lambda: codes() == (0, 0), "the coordinators to recover", TIMEOUT_S)


def ask(cluster: Cluster, node_id: int, request: Message, response: type[R], version: int) -> R:
    found = request_once(
        "127.0.0.1", cluster.brokers[node_id].port, request, response, version, timeout_s=REQUEST_S
    )
    assert found is not None, f"no response to {request}"
    return found

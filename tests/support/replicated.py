"""What tests of replication repeat: topics with replicas, raw Produce requests, files of replicas, group members."""

from __future__ import annotations

import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base.clock import SystemClock
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.local.requests import request_once
from ottla.records.builder import NewRecord, build_batch
from ottla.testing import Cluster
from ottla.testing.history import History
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.clients import TIMEOUT_S, create_topic, fresh, read_all
from tests.support.waiting import wait_until

_PRODUCE_BY_NAME = 9
TRANSIENT = {
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
}
"""Errors of a client while a partition gets a new leader."""


def replicated_topic(cluster: Cluster, name: str, partitions: int = 1, **config: str) -> str:
    """A topic with the default replication of the cluster; all its replicas are in sync."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = create_topic(cluster.bootstrap, fresh(name), partitions, settings, replicas=-1)
    for partition in range(partitions):
        cluster.wait_in_sync(topic, cluster.brokers, partition)
    return topic


def assigned_topic(cluster: Cluster, name: str, replicas: list[int], **config: str) -> str:
    """A topic of one partition with the given replicas, all in sync; the first one leads."""
    topic = fresh(name)
    settings = {key.replace("_", "."): value for key, value in config.items()}
    new = NewTopic(topic, num_partitions=1, replica_assignment=[replicas], config=settings)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([new], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    cluster.wait_in_sync(topic, replicas)
    return topic


def produce_error(cluster: Cluster, node_id: int, topic: str, batch: bytes, acks: int = -1) -> ErrorCode:
    """The error with which one broker responds to a batch for partition 0."""
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=int(TIMEOUT_S * 1000),
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )
    port = cluster.brokers[node_id].port
    response = request_once("127.0.0.1", port, request, ProduceResponse, _PRODUCE_BY_NAME, TIMEOUT_S)
    assert response is not None, f"broker {node_id} does not respond"
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def log_bytes(cluster: Cluster, node_id: int, topic: str, partition: int = 0) -> bytes:
    """The content of all segments of a replica."""
    folder: Path = cluster.brokers[node_id].data / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def batch_of(value: bytes) -> bytes:
    """A batch with one record."""
    return bytes(build_batch([NewRecord(None, value, timestamp=SystemClock().now_ms())]))


class GroupReader:
    """A member of a group that reads a topic in a thread of its own, from the start, until it is closed."""

    def __init__(self, bootstrap: str, topic: str, group: str, name: str = "member") -> None:
        self.name = name
        self.history = History()
        self.seen: set[tuple[int, int]] = set()
        """Partition and offset of every record that was read."""
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "auto.commit.interval.ms": 200,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return len(self.seen)

    def _assigned(self, *_: object) -> None:
        self.history.assigned(self.name)

    def _read(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                if message.error() is None:
                    where = TopicPartition(message.topic(), message.partition())
                    self.history.read(self.name, where, message.offset(), message.value())
                    self.seen.add((message.partition(), message.offset()))

    def close(self) -> History:
        self._over.set()
        self._thread.join()
        self._consumer.close()
        return self.history


def read_values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """All values of a partition. After an election the end is unknown for a moment: it is looked up again."""
    found: list[bytes] = []

    def is_read() -> bool:
        try:
            found[:] = [message.value() for message in read_all(cluster.bootstrap, topic, partition)]
        except KafkaException as error:
            if error.args[0].code() not in TRANSIENT:
                raise
            return False
        return True

    wait_until(is_read, f"{topic}-{partition} to be readable")
    return found


def produce_to_leader(cluster: Cluster, topic: str, value: bytes, *, other_than: int = -1) -> int:
    """Write one record with acks=all; the broker that has acknowledged it."""
    acknowledged: list[int] = []

    def is_written() -> bool:
        leader = cluster.wait_leader(topic, other_than=other_than)
        error = produce_error(cluster, leader, topic, batch_of(value))
        assert error in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER), error
        if error is ErrorCode.NONE:
            acknowledged.append(leader)
        return bool(acknowledged)

    wait_until(is_written, f"the leader of {topic}")
    return acknowledged[0]

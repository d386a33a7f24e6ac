"""AlterReplicaLogDirs on real brokers: replicas move between directories under load, across stops and kills."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.support.clients import Publisher, Reader, create_topic
from tests.support.raw import Address, RawClient
from tests.support.waiting import wait_until

MakeBroker = Callable[..., BrokerProcess]
TOPIC = "moved"


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("data", "second")]


@pytest.fixture
def broker(make_broker: MakeBroker, places: list[str]) -> BrokerProcess:
    return make_broker({"log.dirs": ",".join(places)})


def alter(broker: BrokerProcess, path: str, *indexes: int) -> list[int]:
    topic = AlterReplicaLogDirTopic(name=TOPIC, partitions=list(indexes))
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
    with RawClient(Address.parse(broker.bootstrap)) as client:
        response: Any = client.ask(request, 2, AlterReplicaLogDirsResponse)
    return [each.error_code for each in response.results[0].partitions]


def directories(broker: BrokerProcess) -> dict[int, str]:
    """Where each partition is; none of them is being moved."""
    with RawClient(Address.parse(broker.bootstrap)) as client:
        response: Any = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    found: dict[int, str] = {}
    for directory in response.results:
        for topic in directory.topics:
            for partition in topic.partitions if topic.name == TOPIC else ():
                if partition.is_future_key:
                    return {}
                found[partition.partition_index] = directory.log_dir
    return found


def wait_moved(broker: BrokerProcess, path: str, *indexes: int) -> None:
    def moved() -> bool:
        found = directories(broker)
        return all(found.get(index) == path for index in indexes)

    wait_until(moved, f"the partitions to be in {path}", 60)


def values(broker: BrokerProcess, index: int, count: int) -> list[bytes | None]:
    with Reader(broker.bootstrap, TOPIC, [index]) as reader:
        return [one.value() for one in reader.take(count)]


@contextmanager
def producing(broker: BrokerProcess) -> Iterator[list[bytes]]:
    """Records are produced all the time; the list has those that were acknowledged, in their order."""
    acknowledged: list[bytes] = []
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True})

    def report(error: object, message: Any) -> None:
        assert error is None, error
        acknowledged.append(message.value())

    def run() -> None:
        number = 0
        while not ended.is_set():
            if len(producer) < 100:
                producer.produce(TOPIC, b"%d" % number + b"x" * 500, partition=0, on_delivery=report)
                number += 1
            producer.poll(0.0005)
        assert producer.flush(30) == 0

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield acknowledged
    finally:
        ended.set()
        thread.join()


def test_a_replica_moves_under_load_and_back(broker: BrokerProcess, places: list[str]) -> None:
    create_topic(broker.bootstrap, TOPIC, config={"segment.bytes": "1048576"})
    first = directories(broker)[0]
    second = next(each for each in places if each != first)
    with producing(broker) as acknowledged:
        wait_until(lambda: len(acknowledged) > 300, "records")
        for path in (second, first, second):
            assert alter(broker, path, 0) == [0]
            wait_moved(broker, path, 0)
            before = len(acknowledged)
            wait_until(lambda before=before: len(acknowledged) > before + 100, "more records")
    assert values(broker, 0, len(acknowledged)) == acknowledged
    assert alter(broker, second, 0) == [0]
    broker.kill()
    broker.start()
    assert directories(broker)[0] == second
    assert values(broker, 0, len(acknowledged)) == acknowledged


def test_a_move_continues_after_a_restart(broker: BrokerProcess, places: list[str]) -> None:
    """The copies of several partitions wait for their turns when the broker ends."""
    create_topic(broker.bootstrap, TOPIC, partitions=4)
    publisher = Publisher(broker.bootstrap)
    publisher.send(TOPIC, [{"value": bytes(10_000), "partition": n % 4} for n in range(2_000)])
    target = places[1]
    for end in (broker.kill, broker.stop):
        assert alter(broker, target, 0, 1, 2, 3) == [0, 0, 0, 0]
        end()
        broker.start()
        wait_moved(broker, target, 0, 1, 2, 3)
        for index in range(4):
            assert len(values(broker, index, 500)) == 500
        target = places[0]


def test_a_directory_that_cannot_be_used_at_the_start_is_described_as_offline(
    make_broker: MakeBroker, places: list[str]
) -> None:
    Path(places[1]).write_text("a file")
    broker = make_broker({"log.dirs": ",".join(places)})
    with RawClient(Address.parse(broker.bootstrap)) as client:
        response: Any = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    described = {one.log_dir: (one.error_code, one.topics) for one in response.results}
    assert described == {places[0]: (0, []), places[1]: (ErrorCode.KAFKA_STORAGE_ERROR, [])}


def test_refusals(broker: BrokerProcess, places: list[str]) -> None:
    create_topic(broker.bootstrap, TOPIC)
    assert alter(broker, "/nowhere", 0, 1) == [57, 57]
    assert alter(broker, places[0], 7) == [3]
    here = directories(broker)[0]
    assert alter(broker, here, 0) == [0]
    assert directories(broker)[0] == here

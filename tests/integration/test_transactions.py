"""Transactions of the Python clients on a real broker, and the transactional copy in its small form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.conftest import MakeBroker
from tests.support import transactional_copy
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.transactional import (
    AiokafkaTransactions,
    ConfluentTransactions,
    KafkaPythonTransactions,
    Refused,
    Transactions,
    committed_offset,
    read_to_end,
)
from tests.support.transactional_copy import confluent_copier, copy_under_fire
from tests.support.waiting import wait_until

CLIENTS = [ConfluentTransactions, AiokafkaTransactions, KafkaPythonTransactions]
Make = Callable[..., Transactions]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.__name__.removesuffix("Transactions").lower())
def make(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Make]:
    """Transactional producers of one of the clients, on the shared broker unless another is named."""
    made: list[Transactions] = []

    def new(transactional_id: str, *, at: BrokerProcess = broker, timeout_ms: int = 60_000) -> Transactions:
        made.append(request.param(at.bootstrap, transactional_id, timeout_ms))
        return made[-1]

    yield new
    for producer in made:
        producer.close()


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("transactions"), 2)


def committed(broker: BrokerProcess, topic: str, partition: int = 0) -> list[bytes]:
    return read_to_end(broker.bootstrap, topic, "read_committed", partition)


def everything(broker: BrokerProcess, topic: str, partition: int = 0) -> list[bytes]:
    return read_to_end(broker.bootstrap, topic, "read_uncommitted", partition)


def test_a_committed_transaction_is_seen_whole(broker: BrokerProcess, topic: str, make: Make) -> None:
    producer = make(fresh("id"))
    producer.begin()
    producer.send(topic, [b"a", b"b"])
    producer.send(topic, [b"c"], partition=1)
    assert everything(broker, topic) == [b"a", b"b"]
    assert committed(broker, topic) == []
    assert committed(broker, topic, 1) == []
    producer.commit()
    wait_until(lambda: committed(broker, topic) == [b"a", b"b"], "the first partition to show it")
    wait_until(lambda: committed(broker, topic, 1) == [b"c"], "the second partition to show it")


def test_an_aborted_transaction_is_not_seen(broker: BrokerProcess, topic: str, make: Make) -> None:
    producer = make(fresh("id"))
    for number, end in enumerate((producer.commit, producer.abort, producer.commit, producer.abort)):
        producer.begin()
        producer.send(topic, [b"%d" % number])
        end()
    wait_until(lambda: committed(broker, topic) == [b"0", b"2"], "what was committed, and nothing else")
    assert everything(broker, topic) == [b"0", b"1", b"2", b"3"]


def test_an_open_transaction_holds_readers_back(broker: BrokerProcess, topic: str, make: Make) -> None:
    producer = make(fresh("id"))
    plain = Publisher(broker.bootstrap)
    plain.send(topic, [{"value": b"before", "partition": 0}])
    producer.begin()
    producer.send(topic, [b"inside"])
    plain.send(topic, [{"value": b"after", "partition": 0}])
    assert committed(broker, topic) == [b"before"]
    producer.abort()
    wait_until(lambda: committed(broker, topic) == [b"before", b"after"], "readers to go on")


def test_a_second_producer_fences_the_first(broker: BrokerProcess, topic: str, make: Make) -> None:
    shared = fresh("id")
    first = make(shared)
    first.begin()
    first.send(topic, [b"of the first"])
    second = make(shared)
    with pytest.raises(Refused):
        first.commit()
    second.begin()
    second.send(topic, [b"of the second"])
    second.commit()
    wait_until(lambda: committed(broker, topic) == [b"of the second"], "the second one's record")


def test_a_zombie_cannot_write(broker: BrokerProcess, topic: str, make: Make) -> None:
    shared = fresh("id")
    zombie = make(shared)
    zombie.begin()
    zombie.send(topic, [b"before"])
    successor = make(shared)
    with pytest.raises(Refused):
        zombie.send(topic, [b"from the dead"])
    successor.begin()
    successor.send(topic, [b"alive"])
    successor.commit()
    wait_until(lambda: committed(broker, topic) == [b"alive"], "only the living to be heard")
    assert b"from the dead" not in everything(broker, topic)


def test_offsets_are_committed_with_the_transaction(broker: BrokerProcess, topic: str, make: Make) -> None:
    group = fresh("group")
    producer = make(fresh("id"))
    producer.begin()
    producer.send(topic, [b"a"])
    producer.send_offset(topic, 7, group)
    assert committed_offset(broker.bootstrap, topic, group) is None
    producer.abort()
    assert committed_offset(broker.bootstrap, topic, group) is None
    producer.begin()
    producer.send(topic, [b"b"])
    producer.send_offset(topic, 8, group)
    producer.commit()
    wait_until(lambda: committed_offset(broker.bootstrap, topic, group) == 8, "the offset to be visible")
    producer.begin()
    producer.send_offset(topic, 9, group)
    assert committed_offset(broker.bootstrap, topic, group) == 8
    producer.commit()
    wait_until(lambda: committed_offset(broker.bootstrap, topic, group) == 9, "offsets alone, too")


def test_a_timeout_above_the_brokers_limit_is_refused(make: Make) -> None:
    with pytest.raises(Refused):
        make(fresh("id"), timeout_ms=900_001)


@pytest.mark.slow
def test_a_transaction_that_lasts_too_long_is_aborted(make_broker: MakeBroker, make: Make) -> None:
    broker = make_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    topic = create_topic(broker.bootstrap, "timeout")
    producer = make("slow", at=broker, timeout_ms=1_500)
    producer.begin()
    producer.send(topic, [b"too late"])
    Publisher(broker.bootstrap).send(topic, [{"value": b"plain"}])
    wait_until(lambda: committed(broker, topic) == [b"plain"], "the transaction to be aborted")
    with pytest.raises(Refused):
        producer.commit()
    assert committed(broker, topic) == [b"plain"]


@pytest.mark.slow
def test_an_open_transaction_outlives_the_broker(make_broker: MakeBroker, make: Make) -> None:
    broker = make_broker(transactional_copy.BROKER_SETTINGS)
    topic = create_topic(broker.bootstrap, "survivor")
    producer = make("survivor", at=broker)
    producer.begin()
    producer.send(topic, [b"before"])
    broker.kill()
    broker.start()
    assert committed(broker, topic) == []
    producer.send(topic, [b"after"])
    producer.commit()
    wait_until(lambda: committed(broker, topic) == [b"before", b"after"], "both halves")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["assign", "classic"])
def test_a_transactional_copy_is_exact(make_broker: MakeBroker, tmp_path: Path, mode: str) -> None:
    broker = make_broker(transactional_copy.BROKER_SETTINGS)
    copy_under_fire(broker, tmp_path, confluent_copier(mode), records=2_000, size=75, kills=2)

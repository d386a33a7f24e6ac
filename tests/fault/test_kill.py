"""`kill -9` under load: nothing acknowledged is lost, nothing is there twice, the order is kept.

The producers are real clients with idempotence and acks=all; they go on while the broker dies and comes back.
When all is over every partition is read from start to end, and the history checker says whether a log could
have shown it.
"""

from __future__ import annotations

import random

import pytest

from ottla.base.ids import TopicPartition
from ottla.local.broker_process import BrokerProcess
from ottla.testing.history import History
from tests.conftest import MakeBroker
from tests.fault.load import AiokafkaLoad, ConfluentLoad, Load
from tests.support.clients import create_topic, fresh, read_all
from tests.support.waiting import wait_until

PARTITIONS = 4


def torture(broker: BrokerProcess, loads: list[type[Load]], *, kills: int, seed: int) -> History:
    """Kills the broker `kills` times, each time after some more records were acknowledged."""
    topic = create_topic(broker.bootstrap, fresh("torture"), PARTITIONS, {"segment.bytes": str(1 << 20)})
    dice = random.Random(seed)
    running = [load(f"{load.__name__}", broker.bootstrap, topic, PARTITIONS) for load in loads]
    for load in running:
        load.start()
    for number in range(kills):
        goals = {load: load.acknowledged + dice.randint(1, 1_500) for load in running}
        wait_until(
            lambda goals=goals: all(
                load.acknowledged >= goal or load.failure for load, goal in goals.items()
            ),
            f"producing to go on before kill {number + 1} (seed {seed})",
            timeout_s=120,
        )
        broker.kill()
        broker.start()
    history = History()
    for load in running:
        history.extend(load.stop())
    read_back(broker, topic, history)
    return history


def read_back(broker: BrokerProcess, topic: str, history: History) -> None:
    for partition in range(PARTITIONS):
        place = TopicPartition(topic, partition)
        for message in read_all(broker.bootstrap, topic, partition):
            history.read("reader", place, message.offset(), message.value())


@pytest.mark.slow
@pytest.mark.parametrize("load", [ConfluentLoad, AiokafkaLoad])
def test_a_few_kills_under_idempotent_load(make_broker: MakeBroker, load: type[Load]) -> None:
    history = torture(make_broker(), [load], kills=4, seed=4)
    assert history.acknowledged_count > 0
    assert history.anomalies() == []


@pytest.mark.torture
def test_a_hundred_kills_under_idempotent_load(make_broker: MakeBroker) -> None:
    history = torture(make_broker(), [ConfluentLoad, AiokafkaLoad], kills=100, seed=100)
    assert history.acknowledged_count > 10_000
    assert history.anomalies() == []


@pytest.mark.torture
def test_kills_with_the_flush_policy_of_kafka(make_broker: MakeBroker) -> None:
    """A killed process loses nothing that it has written, synced or not: the kernel still has it."""
    broker = make_broker({"log.flush.interval.messages": "9223372036854775807"})
    history = torture(broker, [ConfluentLoad], kills=30, seed=30)
    assert history.anomalies() == []

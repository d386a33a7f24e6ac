"""Consumer groups of every client people use, in a storm, also larger ones and mixed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.clients.build import go_members, java_members, js_members
from tests.conftest import MakeBroker
from tests.support.group_storm import Client, Storm, broker_settings, python_client, storm

pytestmark = pytest.mark.compat

SESSION_MS = 6_000
JAVA_RANGE = Client("java", java_members, "range")
JAVA_COOPERATIVE = Client("java", java_members, "cooperative")
JAVA_CONSUMER = Client("java", java_members, "consumer")
GO_RANGE = Client("go", go_members, "range")
GO_COOPERATIVE = Client("go", go_members, "cooperative")
GO_CONSUMER = Client("go", go_members, "consumer")
JAVASCRIPT = Client("js", js_members, "round robin")
CONFLUENT_RANGE = python_client("confluent", "range")
CONFLUENT_COOPERATIVE = python_client("confluent", "cooperative")
CONFLUENT_CONSUMER = python_client("confluent", "consumer")

EVERY_CLIENT = [
    pytest.param([CONFLUENT_RANGE], id="confluent-range"),
    pytest.param([CONFLUENT_COOPERATIVE], id="confluent-cooperative"),
    pytest.param([CONFLUENT_CONSUMER], id="confluent-consumer"),
    pytest.param([python_client("aio", "range")], id="aiokafka"),
    pytest.param([python_client("kafka_python", "range")], id="kafka-python-range"),
    pytest.param([python_client("kafka_python", "cooperative")], id="kafka-python-cooperative"),
    pytest.param([JAVA_RANGE], id="java-range"),
    pytest.param([JAVA_COOPERATIVE], id="java-cooperative"),
    pytest.param([JAVA_CONSUMER], id="java-consumer"),
    pytest.param([GO_RANGE], id="go-range"),
    pytest.param([GO_COOPERATIVE], id="go-cooperative"),
    pytest.param([GO_CONSUMER], id="go-consumer"),
    pytest.param([JAVASCRIPT], id="javascript"),
    pytest.param([JAVA_CONSUMER, GO_CONSUMER, CONFLUENT_CONSUMER], id="all-consumer"),
    pytest.param([JAVA_RANGE, GO_RANGE, CONFLUENT_RANGE, python_client("aio", "range")], id="all-range"),
    pytest.param([JAVA_COOPERATIVE, CONFLUENT_COOPERATIVE], id="all-cooperative"),
]
BIG = [
    pytest.param(CONFLUENT_RANGE, id="confluent-range"),
    pytest.param(CONFLUENT_COOPERATIVE, id="confluent-cooperative"),
    pytest.param(CONFLUENT_CONSUMER, id="confluent-consumer"),
]


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("clients", EVERY_CLIENT)
def test_a_group_keeps_its_promises_in_a_storm(
    make_broker: MakeBroker, tmp_path: Path, clients: list[Client]
) -> None:
    broker = make_broker(broker_settings(SESSION_MS))
    storm(broker, tmp_path, clients, partitions=20, size=3, session_ms=SESSION_MS)


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("client", BIG)
def test_fifty_members_over_a_hundred_partitions(
    make_broker: MakeBroker, tmp_path: Path, client: Client
) -> None:
    with Storm(
        make_broker(broker_settings(SESSION_MS)), tmp_path, partitions=100, session_ms=SESSION_MS
    ) as it:
        it.produce(20)
        hosts = [it.join(client, 10) for _ in range(4)]
        it.settle()
        it.join(client, 10)
        it.settle()
        it.produce(10)
        it.kill(hosts.pop())
        it.settle()
        it.produce(10)
        it.drain()
        it.pause(hosts[0])
        it.settle()
        it.produce(10)
        it.resume(hosts[0])
        it.settle()
        it.restart_broker()
        it.produce(10)
        it.drain()
        it.settle()
        it.leave(hosts.pop())
        it.settle()
        it.finish()


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(JAVA_COOPERATIVE, JAVA_CONSUMER, id="java"),
        # Not cooperative: librdkafka's sticky assignor puts data of its own into assignments, and Kafka moves
        # no group with such data.
        pytest.param(CONFLUENT_RANGE, CONFLUENT_CONSUMER, id="confluent"),
    ],
)
def test_a_group_moves_to_the_new_protocol_and_back_while_it_works(
    make_broker: MakeBroker, tmp_path: Path, before: Client, after: Client
) -> None:
    with Storm(
        make_broker(broker_settings(SESSION_MS)), tmp_path, partitions=12, session_ms=SESSION_MS
    ) as it:
        it.produce(20)
        hosts = [it.join(before, 1) for _ in range(3)]
        it.settle()
        for client in (after, before):
            for _ in range(3):
                it.produce(5)
                it.join(client, 1)
                it.leave(hosts.pop(0))
                it.settle()
            hosts = it.hosts
            it.drain()
        it.finish()

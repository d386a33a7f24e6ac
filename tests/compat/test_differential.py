"""Apache Kafka and Ottla, fresh and with the same settings, are asked the same and compared answer by answer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.compat.differential import chance
from tests.compat.differential.catalog import SCENARIOS, Scenario
from tests.compat.differential.comparator import Comparator
from tests.compat.differential.deliberate import DELIBERATE
from tests.support.raw import CLOSED, Address, Closed, RawClient

pytestmark = pytest.mark.compat

RESPONSES_MIN = 6_000
by_chance = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)  # fmt: skip
numbers = count()


@pytest.fixture(scope="module")
def comparator(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparator]:
    home, port = tmp_path_factory.mktemp("differential"), free_port()
    same_as_kafka = ONE_NODE | {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with KafkaPeer(home / "kafka") as kafka, BrokerProcess(home / "ottla", same_as_kafka, port=port) as ottla:
        comparator = Comparator(Address.parse(kafka.bootstrap), Address.parse(ottla.bootstrap))
        yield comparator
        if comparator.played >= {scenario.title for scenario in SCENARIOS}:
            stale = [one for one in DELIBERATE if one not in comparator.seen]
            assert not stale, f"these no longer differ: {stale}"
            assert comparator.compared >= RESPONSES_MIN


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.title for scenario in SCENARIOS])
def test_responses_are_the_same_as_kafkas(scenario: Scenario, comparator: Comparator) -> None:
    left = comparator.unexplained(scenario)
    assert not left, "\n".join(map(str, left[:40]))


def test_what_is_not_served_is_refused_at_once(comparator: Comparator) -> None:
    """Who asks for it sees the connection closed, and is not left waiting."""

    def advertised(address: Address) -> dict[int, int]:
        with RawClient(address) as client:
            answer = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert not isinstance(answer, Closed)
        return {row.api_key: row.max_version for row in answer.api_keys}

    kafka, ottla = advertised(comparator.kafka), advertised(comparator.ottla)
    assert ottla.keys() < kafka.keys()
    for key in kafka.keys() - ottla.keys():
        with RawClient(comparator.ottla) as client:
            client.send_frame(struct.pack(">hhihbb", key, kafka[key], 1, -1, 0, 0) + bytes(64))
            assert client.read_frame() is CLOSED


@by_chance
@given(moves=chance.data_moves)
def test_records_by_chance(comparator: Comparator, moves: list[chance.Move]) -> None:
    """Any sequence of produces, fetches, sessions, offset requests and deletions ends alike."""
    left = comparator.unexplained(Scenario(f"chance-{next(numbers)}", chance.play(moves), 0))
    assert not left, "\n".join(map(str, left[:40]))


@by_chance
@given(moves=chance.admin_moves)
def test_administration_by_chance(comparator: Comparator, moves: list[chance.Move]) -> None:
    """So does any sequence of requests about topics and settings."""
    left = comparator.unexplained(Scenario(f"chance-{next(numbers)}", chance.play(moves), 0))
    assert not left, "\n".join(map(str, left[:40]))

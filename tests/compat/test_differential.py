"""Apache Kafka and Ottla, fresh and with the same settings, are asked the same and compared answer by answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.testing.broker_process import BrokerProcess
from tests.compat.differential import ALL
from tests.compat.differential.catalog import SCENARIOS, Scenario
from tests.compat.differential.comparison import Deliberate, Difference, differences
from tests.compat.differential.deliberate import DELIBERATE
from tests.compat.differential.player import Player
from tests.support.raw import Address

pytestmark = pytest.mark.compat


@dataclass
class Judge:
    """Both brokers, and which of the deliberate differences have been seen."""

    kafka: Address
    ottla: Address
    seen: set[Deliberate] = field(default_factory=set)
    played: set[str] = field(default_factory=set)

    def unexplained(self, scenario: Scenario) -> list[Difference]:
        """Play a scenario on both and return the differences that nothing excuses."""
        players = [Player(address, scenario.title, scenario.version) for address in (self.kafka, self.ottla)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(scenario.play, players))
        for player in players:
            player.reconnect()
        self.played.add(scenario.title)
        left = []
        for difference in differences(scenario, *(player.asked for player in players)):
            excuses = [one for one in DELIBERATE if one.covers(difference)]
            self.seen.update(excuses)
            if not excuses:
                left.append(difference)
        return left


@pytest.fixture(scope="module")
def judge(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    home = tmp_path_factory.mktemp("differential")
    with KafkaPeer(home / "kafka") as kafka:
        settings = ONE_NODE | {
            "advertised.listeners": "PLAINTEXT://127.0.0.1:{port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        broker = BrokerProcess(home / "ottla")
        broker = BrokerProcess(
            home / "ottla",
            {key: value.format(port=broker.port) for key, value in settings.items()},
            port=broker.port,
        )
        with broker as ottla:
            yield Judge(Address.parse(kafka.bootstrap), Address.parse(ottla.bootstrap))
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.title for scenario in SCENARIOS])
def test_answers_are_kafkas(scenario: Scenario, judge: Judge) -> None:
    left = judge.unexplained(scenario)
    assert not left, "\n".join(map(str, left[:40]))

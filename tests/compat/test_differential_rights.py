"""Apache Kafka and Ottla, both with an authorizer and users of SASL/PLAIN, get the same requests of each user."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.compat.differential.catalog import SCENARIOS, Scenario
from tests.compat.differential.comparison import Deliberate, differences
from tests.compat.differential.deliberate import DELIBERATE
from tests.compat.differential.rights import PASSWORDS, RightsPlayer, play
from tests.support.raw import Address
from tests.support.sasl import plain_jaas

pytestmark = pytest.mark.compat

MAP = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
SETTINGS = ONE_NODE | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "listener.security.protocol.map": MAP,
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_jaas(PASSWORDS, None),
}
USERS = ("alice", "bob", "carol", "dave")
LEFT_OUT = {
    *("groups-by-chance", "transactions-by-chance", "offset-commit-of-too-much", "settings-at-work"),
    "telemetry",  # it has no rights, and remembers clients of earlier scenarios
}
NEWEST = {each.name: each for each in sorted(SCENARIOS, key=lambda one: one.version)}
PLAYED = [each for each in NEWEST.values() if each.name not in LEFT_OUT]
RIGHTS_DELIBERATE = (
    Deliberate(".", ".", r".*error_message", "the text names the right that is missing"),
    Deliberate(
        "describe-(producers|groups|transactions|configs)",
        "twice|all|idle|open",
        "",
        "an element that a request repeats is in the response once",
    ),
    Deliberate("fetch-deleted", "", "", "an id that does not exist any more has no name to be checked"),
)


@dataclass
class Both:
    kafka: Address
    ottla: Address


@pytest.fixture(scope="module")
def both(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("rights")

    def listeners(port: int, sasl: int) -> str:
        return f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}"

    theirs, port, ours = free_port(), free_port(), free_port()
    kafka = KafkaPeer(home / "kafka", SETTINGS)
    advertised = listeners(kafka.port, theirs)
    kafka.overrides["listeners"] = f"{advertised},CONTROLLER://127.0.0.1:{kafka.controller_port}"
    kafka.overrides["advertised.listeners"] = advertised
    own = {"listeners": listeners(port, ours), "advertised.listeners": listeners(port, ours)}
    with kafka, BrokerProcess(home / "ottla", SETTINGS | own, port=port):
        yield Both(Address("127.0.0.1", theirs), Address("127.0.0.1", ours))


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("scenario", PLAYED, ids=[each.name for each in PLAYED])
def test_each_user_gets_the_responses_of_kafka(scenario: Scenario, user: str, both: Both) -> None:
    prefix = f"{scenario.title}-{user}"
    players = [
        RightsPlayer(address, prefix, scenario.version, user=user) for address in (both.kafka, both.ottla)
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda player: play(player, scenario.play), players))
    explained = (*DELIBERATE, *RIGHTS_DELIBERATE)
    left = [
        each
        for each in differences(scenario, *(player.asked for player in players))
        if not any(one.covers(each) for one in explained)
    ]
    assert not left, "\n".join(map(str, left[:40]))

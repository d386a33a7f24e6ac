"""Three nodes of Apache Kafka and three of Ottla get the same requests, with all nodes up and with one down."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.clusters import KafkaCluster
from ottla.local.cluster import LocalCluster
from tests.compat.differential import controllers
from tests.compat.differential.catalog import Scenario
from tests.compat.differential.comparison import Difference, differences
from tests.compat.differential.three_nodes import ClusterPlayer, play
from tests.compat.differential.three_nodes_deliberate import DELIBERATE

pytestmark = pytest.mark.compat

SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
}
RESPONSES_MIN = 1_000


def steps(player: ClusterPlayer) -> None:
    play(player)
    controllers.play(player)


def summary(left: list[Difference]) -> str:
    """Each kind of difference once, with the number of its occurrences and the first label."""
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for one in left:
        kinds.setdefault((one.path, repr(one.kafka), repr(one.ottla)), []).append(one.label)
    return "\n".join(
        f"{path}: Kafka {kafka}, Ottla {ottla}: {len(labels)} x, first {labels[0]}"
        for (path, kafka, ottla), labels in kinds.items()
    )


def test_three_nodes_respond_as_three_nodes_of_kafka(
    kafka_jars: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("clusters")
    with (
        KafkaCluster(home / "kafka", config=SETTINGS) as kafka,
        LocalCluster(home / "ottla", config=SETTINGS) as ottla,
    ):
        players = [ClusterPlayer(kafka), ClusterPlayer(ottla)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(steps, players))
        for player in players:
            player.reconnect()
            player.cluster.kill_all()  # the last node of Apache Kafka waits long for a quorum when it is stopped
    title = Scenario("three-nodes", lambda _: None, 0)
    found = list(differences(title, *(player.asked for player in players)))
    left = [one for one in found if not any(reason.covers(one) for reason in DELIBERATE)]
    assert not left, f"{len(left)} differences\n{summary(left)}"
    assert len(players[0].asked) >= RESPONSES_MIN
    unused = [one for one in DELIBERATE if not any(one.covers(each) for each in found)]
    assert not unused, f"these no longer differ: {unused}"

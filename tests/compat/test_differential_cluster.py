"""Several nodes of Apache Kafka and as many of Ottla get the same requests, with all nodes up and with some down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.clusters import KafkaCluster
from ottla.local.cluster import LocalCluster
from tests.compat.differential import (
    broker_requests,
    brokers_by_chance,
    changes,
    controller_settings,
    controllers,
    every_node,
    feature_levels,
    five_nodes,
    quorum_requests,
)
from tests.compat.differential.catalog import Scenario
from tests.compat.differential.comparison import Deliberate, Difference, differences
from tests.compat.differential.three_nodes import ClusterPlayer, play
from tests.compat.differential.three_nodes_deliberate import DELIBERATE, EVERY_NODE, FIVE_NODES, NODES

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


def compare(
    home: Path,
    title: str,
    steps: Callable[[ClusterPlayer], None],
    deliberate: list[Deliberate],
    responses_min: int,
    brokers: int = 3,
    racks: tuple[str, ...] = (),
    settings: Mapping[str, str] | None = None,
) -> None:
    """Play the steps on both clusters at the same time; fail if a response differs that is not meant to."""
    config = {**SETTINGS, **(settings or {})}
    with (
        KafkaCluster(home / "kafka", brokers, racks=racks, config=config) as kafka,
        LocalCluster(home / "ottla", brokers, racks=racks, config=config) as ottla,
    ):
        players = [ClusterPlayer(kafka), ClusterPlayer(ottla)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(steps, players))
        for player in players:
            player.reconnect()
            player.cluster.kill_all()  # the last node of Apache Kafka waits long for a quorum when it is stopped
    scenario = Scenario(title, lambda _: None, 0)
    found = list(differences(scenario, *(player.asked for player in players)))
    left = [one for one in found if not any(reason.covers(one) for reason in deliberate)]
    assert not left, f"{len(left)} differences\n{summary(left)}"
    assert len(players[0].asked) >= responses_min
    unused = [one for one in deliberate if not any(one.covers(each) for each in found)]
    assert not unused, f"these no longer differ: {unused}"


def test_three_nodes_respond_as_three_nodes_of_kafka(kafka_jars: None, tmp_path: Path) -> None:
    compare(tmp_path, "three-nodes", steps, DELIBERATE, RESPONSES_MIN)


def test_every_node_responds_as_kafka_to_what_others_handle(kafka_jars: None, tmp_path: Path) -> None:
    def steps(player: ClusterPlayer) -> None:
        every_node.play(player)
        changes.play(player)

    compare(
        tmp_path,
        "every-node",
        steps,
        EVERY_NODE,
        4_000,
        racks=("r0", "r1", "r2"),
        settings={"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
    )


def test_controllers_respond_to_nodes_as_kafka(kafka_jars: None, tmp_path: Path) -> None:
    def steps(player: ClusterPlayer) -> None:
        quorum_requests.play(player)
        controller_settings.play(player)
        broker_requests.play(player)
        feature_levels.play(player)

    compare(tmp_path, "nodes", steps, NODES, 400)


def test_brokers_by_chance_lead_what_they_lead_in_kafka(kafka_jars: None, tmp_path: Path) -> None:
    compare(
        tmp_path,
        "brokers-by-chance",
        lambda player: brokers_by_chance.play(player, seed=3, steps=80),
        [],
        120,
        settings=brokers_by_chance.SETTINGS,
    )


def test_five_nodes_lose_and_elect_leaders_as_five_nodes_of_kafka(kafka_jars: None, tmp_path: Path) -> None:
    """Without syncs: a broker that was killed is then as little eligible as with Kafka (decision 18)."""
    flushing = {"log.flush.interval.messages": str((1 << 63) - 1)}
    compare(tmp_path, "five-nodes", five_nodes.play, FIVE_NODES, 400, brokers=5, settings=flushing)

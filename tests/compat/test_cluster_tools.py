"""The command line tools of Apache Kafka 4.3.1 work on three brokers, unmodified."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.local.cluster import LocalCluster
from ottla.testing.cluster import Cluster
from tests.compat.java_tools import JavaTools
from tests.support.clients import Publisher, fresh
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=["R1", "R1", "R2"], data=tmp_path_factory.mktemp("cluster")) as running:
        yield running


class TwoDisks(LocalCluster):
    """Brokers with two log directories each."""

    def places(self, node_id: int) -> list[str]:
        return [str(self.data / f"disk-{node_id}-{disk}") for disk in "ab"]

    def _process(self, node_id: int, folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return super()._process(node_id, folder, {**settings, "log.dirs": ",".join(self.places(node_id))})


@pytest.fixture(scope="module")
def at(cluster: Cluster) -> tuple[str, str]:
    return ("--bootstrap-server", cluster.bootstrap)


def make_topic(tools: JavaTools, at: tuple[str, str]) -> str:
    topic = fresh("tool")
    tools.good(
        "kafka-topics", *at, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3"
    )
    return topic


def replicas(described: str) -> dict[int, tuple[int, set[int], set[int]]]:
    """Leader, replicas and ISR of each partition in the output of kafka-topics."""
    found = re.findall(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S*)", described)
    return {
        int(index): (
            -1 if leader == "none" else int(leader),
            {int(one) for one in assigned.split(",")},
            {int(one) for one in in_sync.split(",") if one},
        )
        for index, leader, assigned, in_sync in found
    }


def test_kafka_topics_shows_replicas_and_those_that_are_missing(
    tools: JavaTools, cluster: Cluster, at: tuple[str, str]
) -> None:
    topic = make_topic(tools, at)
    described = replicas(tools.good("kafka-topics", *at, "--describe", "--topic", topic).out)
    assert {leader for leader, _, _ in described.values()} == {0, 1, 2}
    assert all(assigned == in_sync == {0, 1, 2} for _, assigned, in_sync in described.values())
    under = ("kafka-topics", *at, "--describe", "--under-replicated-partitions")
    assert topic not in tools.good(*under).out
    cluster.kill(2)

    def is_missing() -> bool:
        found = replicas(tools.good(*under).out)
        return any(in_sync == {0, 1} for _, _, in_sync in found.values())

    wait_until(is_missing, "the killed broker to leave the ISR")
    at_min = tools.good("kafka-topics", *at, "--describe", "--at-min-isr-partitions", "--topic", topic).out
    assert len(replicas(at_min)) == 3
    cluster.restart(2)
    wait_until(lambda: topic not in tools.good(*under).out, "the broker to return to the ISR")


def test_kafka_metadata_quorum_describes_the_voters(tools: JavaTools, at: tuple[str, str]) -> None:
    status = tools.good("kafka-metadata-quorum", *at, "describe", "--status").out
    assert re.search(r"LeaderId:\s+[012]\b", status)
    assert all(f'"id": {node}' in status for node in range(3))
    replication = tools.good("kafka-metadata-quorum", *at, "describe", "--replication").out
    assert len(re.findall(r"\bFollower\b", replication)) == 2
    assert len(re.findall(r"\bLeader\b", replication)) == 1


def test_kafka_leader_election_elects_preferred_leaders(
    tools: JavaTools, cluster: Cluster, at: tuple[str, str]
) -> None:
    topic = make_topic(tools, at)
    cluster.stop(1)
    cluster.restart(1)
    under = ("kafka-topics", *at, "--describe", "--under-replicated-partitions")
    wait_until(lambda: topic not in tools.good(*under).out, "the broker to return to the ISR")
    elected = tools.run(
        "kafka-leader-election", *at, "--election-type", "preferred", "--topic", topic, "--partition", "1"
    )
    assert elected.code == 0, elected

    def is_balanced() -> bool:
        out = tools.good("kafka-topics", *at, "--describe", "--topic", topic).out
        tools.run("kafka-leader-election", *at, "--election-type", "preferred", "--all-topic-partitions")
        return {leader for leader, _, _ in replicas(out).values()} == {0, 1, 2}

    wait_until(is_balanced, "the preferred leaders")


def test_kafka_configs_of_each_broker(tools: JavaTools, at: tuple[str, str]) -> None:
    for node in "012":
        entity = ("--entity-type", "brokers", "--entity-name", node)
        tools.good("kafka-configs", *at, *entity, "--alter", "--add-config", "log.cleaner.threads=2")
        assert "log.cleaner.threads=2" in tools.good("kafka-configs", *at, *entity, "--describe").out
        tools.good("kafka-configs", *at, *entity, "--alter", "--delete-config", "log.cleaner.threads")


def test_kafka_log_dirs_shows_all_brokers(tools: JavaTools, cluster: Cluster, at: tuple[str, str]) -> None:
    topic = make_topic(tools, at)
    Publisher(cluster.bootstrap).send(topic, ({"value": b"v", "partition": n % 3} for n in range(30)))
    out = tools.good("kafka-log-dirs", *at, "--describe", "--topic-list", topic).lines[-1]
    brokers = json.loads(out)["brokers"]
    assert {broker["broker"] for broker in brokers} == {0, 1, 2}
    for broker in brokers:
        partitions = [one for directory in broker["logDirs"] for one in directory["partitions"]]
        assert {one["partition"] for one in partitions} == {f"{topic}-{index}" for index in range(3)}


def test_kafka_broker_api_versions_and_cluster(
    tools: JavaTools, cluster: Cluster, at: tuple[str, str]
) -> None:
    out = tools.good("kafka-broker-api-versions", *at).out
    for node in range(3):
        assert f"{cluster.address(node)} (id: {node} rack: " in out
    assert "Cluster ID: " in tools.good("kafka-cluster", "cluster-id", *at).out
    endpoints = tools.good("kafka-cluster", "list-endpoints", *at).out
    assert all(re.search(rf"^{node}\s", endpoints, re.MULTILINE) for node in range(3))


def test_kafka_consumer_groups_on_any_coordinator(
    tools: JavaTools, cluster: Cluster, at: tuple[str, str], tmp_path: Path
) -> None:
    topic = make_topic(tools, at)
    Publisher(cluster.bootstrap).send(topic, ({"value": b"x", "partition": n % 3} for n in range(9)))
    for name in ("a", "b", "c", "d"):
        group = fresh(name)
        consumed = tools.alone(
            "kafka-console-consumer",
            *at,
            *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "9"),
        )
        assert consumed.out.count("x") == 9
        described = tools.good("kafka-consumer-groups", *at, "--describe", "--group", group).out
        assert len(re.findall(rf"^{group}\s+{topic}\s+\d+\s+3\s+3\s+0\b", described, re.MULTILINE)) == 3


def test_kafka_reassign_partitions_moves_replicas(
    tools: JavaTools, at: tuple[str, str], tmp_path: Path
) -> None:
    topic = fresh("moved")
    tools.good("kafka-topics", *at, "--create", "--topic", topic, "--replica-assignment", "0:1")
    plan = tmp_path / "plan.json"
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1, 2]}]}
    plan.write_text(json.dumps(wanted))
    tools.good("kafka-reassign-partitions", *at, "--reassignment-json-file", str(plan), "--execute")

    def is_complete() -> bool:
        verified = tools.run(
            "kafka-reassign-partitions", *at, "--reassignment-json-file", str(plan), "--verify"
        )
        return "is completed" in verified.out

    wait_until(is_complete, "the reassignment to end")
    described = replicas(tools.good("kafka-topics", *at, "--describe", "--topic", topic).out)
    assert described[0][1] == described[0][2] == {1, 2}


def test_kafka_reassign_partitions_limits_the_rate_and_removes_the_limit(
    tools: JavaTools, at: tuple[str, str], tmp_path: Path
) -> None:
    topic = fresh("limited")
    tools.good("kafka-topics", *at, "--create", "--topic", topic, "--replica-assignment", "0")
    Publisher(at[1]).send(topic, ({"value": bytes(1_000)} for _ in range(2_000)))
    plan = tmp_path / "plan.json"
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [0, 2]}]}
    plan.write_text(json.dumps(wanted))
    files = ("--reassignment-json-file", str(plan))
    tools.good("kafka-reassign-partitions", *at, *files, "--execute", "--throttle", "500000")

    def settings() -> str:
        described = (
            tools.good("kafka-configs", *at, "--describe", "--entity-type", kind, "--entity-name", name).out
            for kind, name in (("topics", topic), ("brokers", "0"), ("brokers", "2"))
        )
        return "".join(described)

    found = settings()
    assert "leader.replication.throttled.replicas=0:0" in found
    assert "follower.replication.throttled.replicas=0:2" in found
    assert "leader.replication.throttled.rate=500000" in found
    assert "follower.replication.throttled.rate=500000" in found

    def is_complete() -> bool:
        return "is completed" in tools.run("kafka-reassign-partitions", *at, *files, "--verify").out

    wait_until(is_complete, "the reassignment to end", 90)
    assert ".throttled." not in settings()


def test_kafka_reassign_partitions_moves_replicas_between_log_directories(
    tools: JavaTools, tmp_path: Path
) -> None:
    """Two replicas change their directory; the third is created in the one that the plan names."""
    with TwoDisks(tmp_path / "brokers") as cluster:
        move_to_each_side(tools, cluster, tmp_path / "plan.json")


def move_to_each_side(tools: JavaTools, cluster: TwoDisks, plan: Path) -> None:
    places = {node: cluster.places(node) for node in cluster.brokers}
    at = ("--bootstrap-server", cluster.bootstrap)
    topic = fresh("disks")
    tools.good("kafka-topics", *at, "--create", "--topic", topic, "--replica-assignment", "0:1")
    Publisher(cluster.bootstrap).send(topic, ({"value": bytes(1_000)} for _ in range(2_000)))

    def moved(side: int) -> bool:
        verified = tools.run(
            "kafka-reassign-partitions", *at, "--reassignment-json-file", str(plan), "--verify"
        )
        described = tools.good("kafka-log-dirs", *at, "--describe", "--topic-list", topic).lines[-1]
        found = {
            broker["broker"]: directory["logDir"]
            for broker in json.loads(described)["brokers"]
            for directory in broker["logDirs"]
            if directory["partitions"] and not directory["partitions"][0]["isFuture"]
        }
        return "still in progress" not in verified.out and found == {
            node: places[node][side] for node in range(3)
        }

    for side in (1, 0):
        wanted = {
            "version": 1,
            "partitions": [
                {
                    "topic": topic,
                    "partition": 0,
                    "replicas": [0, 1, 2],
                    "log_dirs": [places[node][side] for node in range(3)],
                }
            ],
        }
        plan.write_text(json.dumps(wanted))
        execute = ("--reassignment-json-file", str(plan), "--execute")
        tools.good("kafka-reassign-partitions", *at, *execute)
        wait_until(lambda side=side: moved(side), "the replicas to be moved", 90)

"""Processes form a quorum: founding without a format step, failover, foreign nodes, replaced disks, observers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.local.ports import free_ports
from tests.support.waiting import wait_until

LEADER = re.compile(r"event='leader of the metadata quorum' epoch=(\d+) leader=(-?\d+)")


class Processes:
    """Three combined nodes, and others that join them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports(3)
        self.voters = ",".join(f"{at + 1}@127.0.0.1:{port}" for at, port in enumerate(self.ports))
        self.nodes = {node_id: self.voter(node_id) for node_id in (1, 2, 3)}

    def voter(self, node_id: int) -> BrokerProcess:
        port = free_ports(1)[0]
        settings = {
            "node.id": str(node_id),
            "controller.quorum.voters": self.voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{self.ports[node_id - 1]}",
        }
        return BrokerProcess(self.data(node_id), settings, port=port)

    def broker(self, node_id: int, data: Path, **settings: str) -> BrokerProcess:
        """A node with the broker role alone."""
        roles = {"node.id": str(node_id), "process.roles": "broker"}
        return BrokerProcess(
            data, {**roles, **{key.replace("_", "."): each for key, each in settings.items()}}
        )

    def data(self, node_id: int) -> Path:
        return self.folder / f"node{node_id}"

    def cluster_id(self, node_id: int) -> str:
        return cluster_id(self.data(node_id))

    def start(self) -> None:
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait_ready()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def leader(self, node_id: int) -> tuple[int, int]:
        """The newest epoch and leader that a node has logged."""
        epoch, leader = LEADER.findall(self.nodes[node_id].output())[-1]
        return int(epoch), int(leader)

    def brokers(self, node_id: int) -> set[int]:
        """The brokers that a node lists."""
        admin = AdminClient({"bootstrap.servers": self.nodes[node_id].bootstrap})
        return set(admin.list_topics(timeout=20).brokers)


def cluster_id(data: Path) -> str:
    lines = (data / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("cluster.id="))


def create_topic(node: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    try:
        started.start()
        yield started
    finally:
        started.kill()


def test_empty_nodes_found_a_cluster_that_survives_its_leader(processes: Processes) -> None:
    assert len({processes.cluster_id(node_id) for node_id in (1, 2, 3)}) == 1
    for node in processes.nodes.values():
        create_topic(node, f"at-{node.port}")
    epoch, leader = processes.leader(1)
    others = [node_id for node_id in (1, 2, 3) if node_id != leader]
    processes.nodes[leader].kill()
    wait_until(
        lambda: all(
            processes.leader(each) > (epoch, leader) and processes.leader(each)[1] in others
            for each in others
        ),
        "a new leader",
    )
    # Before, librdkafka may wait for the killed node, which Metadata can name as the controller.
    wait_until(lambda: processes.brokers(others[0]) == set(others), "the end of the killed broker")
    create_topic(processes.nodes[others[0]], "after-the-kill")
    processes.nodes[leader].start()
    create_topic(processes.nodes[leader], "after-the-restart")


def test_node_without_the_controller_role_joins_as_an_observer(processes: Processes) -> None:
    servers = ",".join(f"127.0.0.1:{port}" for port in processes.ports)
    observer = processes.broker(4, processes.folder / "observer", controller_quorum_bootstrap_servers=servers)
    with observer:
        create_topic(observer, "at-an-observer")
        assert cluster_id(observer.data) == processes.cluster_id(1)


def test_a_node_that_finds_no_controller_names_the_cause(processes: Processes) -> None:
    servers = f"127.0.0.1:{processes.nodes[1].port},127.0.0.1:1"
    lost = processes.broker(4, processes.folder / "lost", controller_quorum_bootstrap_servers=servers)
    lost.launch()
    try:
        wait_until(lambda: "waiting to join a cluster" in lost.output(), "the reason")
        assert "a listener for clients; the address of a controller listener is needed" in lost.output()
        assert "127.0.0.1:1: [Errno 111] Connection refused" in lost.output()
        assert "; start the controllers, or correct their addresses" in lost.output()
    finally:
        lost.kill()


def test_node_of_another_cluster_is_refused(processes: Processes) -> None:
    data = processes.folder / "foreign"
    with BrokerProcess(data, {"node.id": "4"}):
        pass
    shutil.rmtree(data / "__cluster_metadata-0")
    foreign = processes.broker(4, data, controller_quorum_voters=processes.voters)
    with pytest.raises(BrokerNotStarted, match="belongs to cluster"):
        foreign.start()
    create_topic(processes.nodes[1], "not-disturbed")


def test_two_replaced_disks_do_not_found_a_cluster(processes: Processes) -> None:
    before = processes.cluster_id(3)
    processes.kill()
    for node_id in (1, 2):
        shutil.rmtree(processes.data(node_id))
        processes.nodes[node_id].launch()
    for node_id in (1, 2):
        node = processes.nodes[node_id]
        wait_until(lambda: "not reachable: 3" in node.output(), "a notice that node 3 is needed")  # noqa: B023
        assert f"127.0.0.1:{processes.ports[2]}: [Errno 111] Connection refused" in node.output()
        assert not (processes.data(node_id) / "meta.properties").exists()
    processes.nodes[3].launch()
    for node_id in (1, 2):
        path = processes.data(node_id) / "meta.properties"
        wait_until(path.exists, "the nodes to join the cluster of node 3")
        assert processes.cluster_id(node_id) == before
        assert (processes.data(node_id) / "__cluster_metadata-0" / "quorum-recovery").exists()

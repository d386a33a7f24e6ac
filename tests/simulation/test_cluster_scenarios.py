"""Scenarios on three simulated nodes: one test for each error that seeds have found, and for rare interleavings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.metadata.image import PartitionImage
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.producer_session import ProducerSession
from ottla.testing.sim.node import SimNode
from ottla.testing.sim.run import Simulation
from ottla.testing.sim.topology import DATA_DIRS
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

TWO_DIRECTORIES = 5
"""A seed with which node 3 has two log directories."""
SEPARATE_CONTROLLER = 22
"""A seed with which brokers have two log directories, and the controller is no broker."""


class Writer(Client):
    """Creates the topics on the brokers 1, 2 and 3, then produces to `t` as long as `writes` is set."""

    written = 0
    writes = False
    created = False

    async def run(self) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])
        topics = [
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment])
            for name in sorted(self.cluster.topics)
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
        while not self.created:
            response = await self.retried(self.connection, request, 7, CreateTopicsResponse)
            self.created = all(topic.error_code in (0, 36) for topic in response.topics)
        session = ProducerSession(self)
        await session.init()
        while True:
            if self.writes:
                value = f"{self.client_id}/{self.incarnation}/0/{self.written}"
                await session.produce(self.cluster.partitions("t")[0], [value])
                self.written += 1
            await self.process.sleep(5)


class Three:
    """Three combined nodes with the topic `t`, whose partition is led by node 1 and in sync on all."""

    def __init__(self, seed: int = 1, other_topics: tuple[str, ...] = (), **settings: str) -> None:
        self.simulation = Simulation(seed)
        values = {name.replace("_", "."): value for name, value in settings.items()}
        self.cluster = self.simulation.add_cluster(brokers=3, settings={"min.insync.replicas": "2", **values})
        self.cluster.topics = dict.fromkeys((*other_topics, "t"), 1)
        self.nodes: dict[int, SimNode] = {node.node_id: node for node in self.cluster.nodes}
        for node in self.cluster.nodes:
            node.start()
        self.until(lambda: all(node.ready for node in self.cluster.nodes))
        self.writer = Writer(self.cluster, "writer")
        self.writer.start()
        self.until(lambda: self.writer.created and set(self.partition.isr) == {1, 2, 3})

    @property
    def partition(self) -> PartitionImage:
        return self.cluster.metadata.newest.topics.by_name["t"].partitions[0]

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        deadline_ms = self.simulation.kernel.now_ms + limit_ms
        self.simulation.run(lambda: condition() or self.simulation.kernel.now_ms > deadline_ms)
        assert self.simulation.kernel.violation is None, str(self.simulation.kernel.violation)
        assert condition(), "\n".join(self.simulation.kernel.lines[-20:])

    def write(self, count: int) -> None:
        """Run until that many more records are acknowledged."""
        wanted = self.writer.written + count
        self.writer.writes = True
        self.until(lambda: self.writer.written >= wanted)
        self.writer.writes = False

    def replace_disk(self, node_id: int) -> None:
        """Restart a node with an empty disk."""
        self.nodes[node_id].kill()
        self.nodes[node_id].wipe()
        self.nodes[node_id].start()


@pytest.fixture
def three() -> Three:
    return Three()


@pytest.mark.parametrize("records", [0, 20])
def test_a_follower_of_an_idle_partition_returns_to_the_isr(three: Three, records: int) -> None:
    """It fetched while it was fenced, and does not list the partition again, because nothing is appended."""
    if records:
        three.write(records)
    three.nodes[3].kill()
    three.until(lambda: 3 not in three.partition.isr)
    three.nodes[3].start()

    three.until(lambda: set(three.partition.isr) == {1, 2, 3}, limit_ms=10_000)


def test_the_writer_continues_when_the_leader_is_killed(three: Three) -> None:
    three.write(20)
    three.nodes[1].kill()
    three.write(20)
    assert three.partition.leader != 1
    three.nodes[1].start()
    three.until(lambda: set(three.partition.isr) == {1, 2, 3}, limit_ms=10_000)


@pytest.mark.parametrize("node_id", [1, 3])
def test_a_node_with_a_replaced_disk_copies_everything(three: Three, node_id: int) -> None:
    three.write(20)
    three.replace_disk(node_id)
    three.write(20)
    three.until(lambda: set(three.partition.isr) == {1, 2, 3}, limit_ms=20_000)


def test_an_eligible_replica_whose_disk_was_replaced_returns_to_the_isr(three: Three) -> None:
    """The ISR is smaller than min.insync.replicas: the replica is eligible, and its directory is not registered."""
    three.write(20)
    three.nodes[2].kill()
    three.until(lambda: 2 not in three.partition.isr)
    three.replace_disk(3)
    three.until(lambda: three.partition.eligible_leader_replicas == (3,), limit_ms=20_000)
    three.until(lambda: set(three.partition.isr) == {1, 3}, limit_ms=20_000)
    three.nodes[2].start()
    three.write(20)
    three.until(lambda: set(three.partition.isr) == {1, 2, 3}, limit_ms=20_000)


def test_a_directory_that_failed_and_works_again_does_not_prevent_the_start() -> None:
    """Its replicas were copied to the other directory meanwhile: those in the failed one are set aside."""
    # The first topic is in the directory of the metadata log, the second one in the other directory.
    three = Three(seed=TWO_DIRECTORIES, other_topics=("first",))
    node, failed = three.nodes[3], DATA_DIRS[1]
    assert [each.log.log_dir for each in node.partitions if each.topic == "t"] == [failed]
    three.write(20)
    node.disk.failed_dir = failed
    three.write(20)
    three.until(lambda: any(each.log.log_dir != failed for each in node.partitions if each.topic == "t"))
    three.until(lambda: set(three.partition.isr) == {1, 2, 3})
    node.kill()
    node.disk.failed_dir = ""
    node.start()
    three.write(20)
    three.until(lambda: node.ready and set(three.partition.isr) == {1, 2, 3})
    assert [each.log.log_dir for each in node.partitions if each.topic == "t"] == [DATA_DIRS[0]]

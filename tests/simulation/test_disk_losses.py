"""Faults that lose records of one node: nothing that is committed is lost, and nothing damaged is copied."""

from __future__ import annotations

import pytest

from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.disk_losses import DiskLosses
from ottla.testing.sim.run import Run
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.simulation.test_cluster_scenarios import SEPARATE_CONTROLLER, Three


@pytest.mark.parametrize(
    ("kind", "counted", "seed"),
    [("replace disk", "disks replaced", 4), ("fail directory", "directories replaced", 5)],
)
def test_no_seed_violates_an_invariant(kind: str, counted: str, seed: int) -> None:
    result = Run(seed, fault_ms=4000, brokers=3, only=[kind]).finish()

    assert result.violation is None, str(result.violation)
    assert result.counts[counted] > 0


def test_a_damaged_batch_is_not_copied() -> None:
    """The leader has a damaged batch. A follower with a new disk gets all records when the leader is replaced, too."""
    three = Three()
    three.write(20)
    leader = three.nodes[1]
    leader.disk.corrupt(f"/data/t-0/{0:020d}.log", 65)
    leader.damaged = True
    three.replace_disk(3)
    three.until(lambda: 3 not in three.partition.isr)
    three.until(lambda: three.nodes[3].ready)
    three.simulation.run_ms(2000)
    assert 3 not in three.partition.isr

    three.replace_disk(1)
    three.until(lambda: set(three.partition.isr) == {1, 2, 3})


class NewTopic(Client):
    """Creates a topic on three brokers."""

    created = False

    async def run(self) -> None:
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=3)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        response = await self.retried(self.connection, request, 7, CreateTopicsResponse)
        self.created = response.topics[0].error_code == 0


@pytest.mark.parametrize("is_last_copy", [True, False])
def test_a_disk_with_the_only_in_sync_replica_is_not_replaced(is_last_copy: bool) -> None:
    """Seed 9701: the topic is created while the other brokers are fenced."""
    three = Three(seed=SEPARATE_CONTROLLER)
    three.write(20)
    faults = DiskLosses(three.cluster, ClientSet(three.cluster), ["damage segment"])
    segment = f"{next(each.log.directory for each in three.nodes[3].partitions)}/{0:020d}.log"
    before = three.nodes[3].disk.read(segment)
    for node_id in (1, 2) if is_last_copy else (1,):
        three.nodes[node_id].kill()
        three.until(lambda: node_id not in three.partition.isr)  # noqa: B023
    new = NewTopic(three.cluster, "creator")
    new.start()
    three.until(lambda: new.created)

    node = three.nodes[3]
    node.damaged = True
    faults._damage[node] = segment, 65, before[65]
    node.disk.corrupt(segment, 65)
    node.kill()
    faults._ensure_running(node)
    assert not node.damaged
    assert (node.disk.exists(segment) and node.disk.read(segment) == before) == is_last_copy


def test_a_node_may_lose_its_records_before_another_one_has_recovered() -> None:
    three = Three(seed=SEPARATE_CONTROLLER)
    faults = DiskLosses(three.cluster, ClientSet(three.cluster), ["replace disk"])
    assert faults._may_lose_records(three.nodes[3])
    three.nodes[1].kill()
    three.nodes[1].wipe()
    assert not faults._may_lose_records(three.nodes[3]), "the controller does not know of the first loss"
    three.until(lambda: 1 not in three.partition.isr)
    assert faults._may_lose_records(three.nodes[3])
    three.nodes[2].damaged = True
    assert not faults._may_lose_records(three.nodes[3])

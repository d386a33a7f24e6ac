"""Processes change the voters of their quorum (KIP-853): one node becomes three; voters are removed and replaced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla.base.errors import ErrorCode
from ottla.base.ids import METADATA_TOPIC
from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.local.ports import free_ports
from tests.support.controllers import Controllers, create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.torture
"""Two of these tests have failed once each beside other load: `make torture` runs them, `make test` does not."""
AUTO_JOIN = {"controller.quorum.auto.join.enable": "true"}


def topics(node: BrokerProcess) -> set[str]:
    return set(AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=20).topics)


def brokers(node: BrokerProcess) -> set[int]:
    return set(AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=20).brokers)


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    try:
        yield made
    finally:
        made.kill()


def test_a_single_node_grows_to_three_voters_and_its_first_node_dies(controllers: Controllers) -> None:
    controllers.grow()
    assert set(controllers.voters(3)) == {1, 2, 3}
    assert controllers.add(2, 3) is ErrorCode.DUPLICATE_VOTER
    controllers.nodes[1].kill()
    survivor = controllers.nodes[2]
    wait_until(lambda: brokers(survivor) == {2, 3}, "the end of the killed broker")
    assert "of-the-single-node" in topics(survivor)
    create_topic(survivor, "after-the-kill")
    for node_id in (2, 3):
        controllers.nodes[node_id].kill()
    for node_id in (2, 3):  # two of three voters, each with its own log only
        controllers.nodes[node_id].launch()
    for node_id in (2, 3):
        controllers.nodes[node_id].wait_ready()
    wait_until(lambda: {"of-the-single-node", "after-the-kill"} <= topics(survivor), "the topics")
    controllers.nodes[1].start()
    wait_until(lambda: "after-the-kill" in topics(controllers.nodes[1]), "the return of the first node")


def test_a_follower_and_the_leader_are_removed(controllers: Controllers) -> None:
    controllers.grow()
    servers = ",".join(f"127.0.0.1:{port}" for port in controllers.ports.values())
    named = {"controller.quorum.bootstrap.servers": servers}
    broker = controllers.nodes[4] = BrokerProcess(
        controllers.data(4), {"node.id": "4", "process.roles": "broker", **named}
    )
    broker.start()
    leader = controllers.quorum(1).leader_id
    follower, last = (each for each in (1, 2, 3) if each != leader)
    assert controllers.remove(follower, follower) is ErrorCode.NONE
    assert controllers.voters(1).keys() == {leader, last}
    assert controllers.remove(follower, leader) is ErrorCode.NONE
    wait_until(lambda: controllers.quorum(follower).leader_id == last, "another leader")
    assert controllers.voters(follower).keys() == {last}
    assert controllers.remove(follower, last) is ErrorCode.VOTER_NOT_FOUND
    for node in (controllers.nodes[leader], broker):
        create_topic(node, f"with-one-voter-{node.port}")
    controllers.nodes[leader].kill()
    create_topic(controllers.nodes[last], "without-the-former-leader")


def test_controllers_join_by_themselves_also_with_a_new_disk(controllers: Controllers) -> None:
    controllers.found()
    for node_id in (2, 3):
        controllers.start(node_id, **AUTO_JOIN)
    wait_until(lambda: set(controllers.voters(1)) == {1, 2, 3}, "three voters")
    controllers.nodes[3].kill()
    shutil.rmtree(controllers.data(3))
    controllers.nodes[3].start()
    wait_until(lambda: controllers.voters(1).get(3) == controllers.directory_id(3), "the new disk as a voter")


def test_a_replaced_disk_is_another_voter(controllers: Controllers) -> None:
    controllers.grow()
    former = controllers.directory_id(3)
    controllers.nodes[3].kill()
    shutil.rmtree(controllers.data(3) / f"{METADATA_TOPIC}-0")
    with pytest.raises(BrokerNotStarted, match="a voter that has lost its log must not vote"):
        controllers.nodes[3].start()
    shutil.rmtree(controllers.data(3))
    controllers.nodes[3].start()
    assert controllers.directory_id(3) != former
    assert controllers.voters(1)[3] == former
    wait_until(lambda: 3 in {each.replica_id for each in controllers.quorum(1).observers}, "an observer")
    assert controllers.add(1, 3) is ErrorCode.DUPLICATE_VOTER
    assert controllers.remove(1, 3, former) is ErrorCode.NONE
    assert controllers.add(1, 3) is ErrorCode.NONE
    assert controllers.voters(2)[3] == controllers.directory_id(3)
    controllers.nodes[1].kill()  # the new disk is needed for a majority
    create_topic(controllers.nodes[2], "with-the-new-disk")


def test_a_voter_at_another_address_updates_itself(controllers: Controllers) -> None:
    controllers.grow()
    assert controllers.endpoints(1) == controllers.ports
    controllers.nodes[3].stop()
    controllers.ports[3] = free_ports(1)[0]
    controllers.start(3)
    wait_until(lambda: controllers.endpoints(1) == controllers.ports, "the new address of node 3")
    controllers.nodes[1].kill()  # the others elect a leader at their addresses
    create_topic(controllers.nodes[2], "at-the-new-address")


def test_a_cluster_is_founded_on_request_while_its_other_servers_are_down(controllers: Controllers) -> None:
    founder = controllers.prepare(1, arguments=["--force-founding"])
    founder.start()
    assert set(controllers.voters(1)) == {1}
    second = controllers.prepare(2, arguments=["--force-founding"])
    second.start()  # a cluster exists: it joins
    assert set(controllers.voters(2)) == {1}
    assert controllers.add(2, 2) is ErrorCode.NONE


def test_a_node_that_is_not_reachable_is_not_added(controllers: Controllers) -> None:
    controllers.found()
    controllers.start(2)
    controllers.nodes[2].kill()
    assert controllers.add(1, 2) is ErrorCode.REQUEST_TIMED_OUT
    create_topic(controllers.nodes[1], "not-disturbed")

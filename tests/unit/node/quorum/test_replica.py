"""Nodes with the controller role form a quorum over their controller listeners."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog

from ottla.local.ports import free_ports
from ottla.node.build import Node
from ottla.node.quorum import replica
from ottla.node.settings.config import assemble
from ottla.quorum.raft.timeouts import Timeouts
from ottla.quorum.runtime.driver import RaftQuorum

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def cluster_id(folder: Path, node_id: int) -> str:
    lines = (folder / f"node{node_id}" / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("cluster.id="))


def count_lost_elections(quorum: RaftQuorum) -> Callable[[], int]:
    """How often the other voters have refused a pre-vote of this voter from now on."""
    core, losses = quorum._core, 0
    lost = core._pre_vote_lost

    def counted(now_ms: float) -> None:
        nonlocal losses
        losses += 1
        lost(now_ms)

    core._pre_vote_lost = counted  # type: ignore[method-assign]
    return lambda: losses


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0.005)


class Nodes:
    """Nodes with the controller role alone, in this process."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._ports = free_ports(count)
        self.running: dict[int, Node] = {}
        self.environment: dict[str, str] = {}

    def node(self, node_id: int) -> Node:
        voters = ",".join(f"{at + 1}@127.0.0.1:{port}" for at, port in enumerate(self._ports))
        settings = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://127.0.0.1:{self._ports[node_id - 1]}",
            "log.dirs": str(self._folder / f"node{node_id}"),
            "controller.quorum.election.timeout.ms": "100",
            "controller.quorum.fetch.timeout.ms": "400",
        }
        return Node(assemble(settings, self.environment), structlog.get_logger())

    async def start(self, *node_ids: int) -> None:
        started = {node_id: self.node(node_id) for node_id in node_ids}
        await asyncio.gather(*(node.start() for node in started.values()))
        self.running |= started

    async def stop(self, node_id: int) -> None:
        await self.running.pop(node_id).stop()

    def quorum(self, node_id: int) -> RaftQuorum:
        quorum = self.running[node_id]._metadata.quorum
        assert isinstance(quorum, RaftQuorum)
        return quorum

    def all_applied(self, leader: int) -> bool:
        """Whether every node has applied the whole log of the leader, which is not empty."""
        images = [node._metadata.publisher.image for node in self.running.values()]
        end = self.quorum(leader).log_end_offset
        return all(image.metadata_version and image.offset == end - 1 for image in images)

    async def leader(self) -> int:
        """The leader on which all running nodes agree."""
        while True:
            found = {(self.quorum(each).epoch, self.quorum(each).leader_id) for each in self.running}
            if len(found) == 1 and (leader := found.pop()[1]) in self.running:
                return leader
            await asyncio.sleep(0.005)


def run(folder: Path, play: Callable[[Nodes], Awaitable[None]], count: int = 3) -> None:
    async def main() -> None:
        nodes = Nodes(folder, count)
        try:
            await asyncio.wait_for(play(nodes), 60)
        finally:
            for node_id in list(nodes.running):
                await nodes.stop(node_id)

    asyncio.run(main())


def test_three_nodes_elect_a_leader_and_replace_it_when_it_stops(tmp_path: Path) -> None:
    async def play(nodes: Nodes) -> None:
        await nodes.start(1, 2, 3)
        first = await nodes.leader()
        epoch = nodes.quorum(first).epoch
        await nodes.stop(first)
        second = await nodes.leader()
        assert nodes.quorum(second).epoch > epoch
        await nodes.start(first)
        assert await nodes.leader() == second

    run(tmp_path, play)


def test_metadata_is_replicated_and_survives_a_restart_of_all(tmp_path: Path) -> None:
    async def play(nodes: Nodes) -> None:
        offsets = []
        for _ in range(2):
            await nodes.start(1, 2, 3)
            leader = await nodes.leader()
            await until(lambda: nodes.all_applied(leader))  # noqa: B023
            offsets.append(nodes.quorum(leader).log_end_offset)
            for node_id in (1, 2, 3):
                await nodes.stop(node_id)
        assert offsets[1] > offsets[0]

    run(tmp_path, play)


def test_nodes_agree_on_a_cluster_id_and_a_replaced_disk_recovers(tmp_path: Path) -> None:
    async def play(nodes: Nodes) -> None:
        await nodes.start(1, 2, 3)
        leader = await nodes.leader()
        assert len({cluster_id(tmp_path, node_id) for node_id in (1, 2, 3)}) == 1
        replaced = leader % 3 + 1
        await nodes.stop(replaced)
        shutil.rmtree(tmp_path / f"node{replaced}")
        await nodes.start(replaced)
        await until(lambda: nodes.quorum(replaced)._core.can_vote)
        metadata = nodes.running[replaced]._metadata
        assert isinstance(metadata, replica.ReplicaNode)
        assert metadata._notices._timer is None
        assert len({cluster_id(tmp_path, node_id) for node_id in (1, 2, 3)}) == 1
        await nodes.leader()

    run(tmp_path, play)


def test_two_replaced_disks_found_nothing_and_elect_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_NOTICE_S", 0.05)
    logged = structlog.testing.LogCapture()
    monkeypatch.setattr(replica, "_log", structlog.wrap_logger(None, processors=[logged]))

    def warned() -> set[str]:
        found = [each for each in logged.entries if "there is no leader" in each["event"]]
        assert all("restore this directory" in each["remedy"] for each in found)
        return {each["directory"] for each in found}

    async def play(nodes: Nodes) -> None:
        await nodes.start(1, 2, 3)
        first = await nodes.leader()
        await until(lambda: nodes.all_applied(first))
        for node_id in (1, 2, 3):
            await nodes.stop(node_id)
        for node_id in (1, 2):
            shutil.rmtree(tmp_path / f"node{node_id}")
        waiting = [nodes.node(1), nodes.node(2)]
        starts = [asyncio.ensure_future(node.start()) for node in waiting]
        await until(lambda: all(node._controller_server is not None for node in waiting))
        third = nodes.node(3)
        await third.start()
        nodes.running |= dict(zip((1, 2, 3), (*waiting, third), strict=True))
        await asyncio.gather(*starts)  # they join the cluster of node 3, and do not vote
        assert cluster_id(tmp_path, 1) == cluster_id(tmp_path, 2) == cluster_id(tmp_path, 3)
        refused = count_lost_elections(nodes.quorum(3))
        await until(lambda: refused() > 2)
        await until(lambda: warned() == {f"{tmp_path}/node{each}/__cluster_metadata-0" for each in (1, 2)})
        assert [nodes.quorum(node_id)._core.can_vote for node_id in (1, 2, 3)] == [False, False, True]

    run(tmp_path, play)


def test_a_single_static_voter_founds_its_cluster_and_leads(tmp_path: Path) -> None:
    async def play(nodes: Nodes) -> None:
        for _ in range(2):
            await nodes.start(1)
            assert await nodes.leader() == 1
            await until(lambda: nodes.all_applied(1))
            await nodes.stop(1)

    run(tmp_path, play, count=1)


def test_the_directory_of_a_single_static_voter_is_opened_without_voters_in_the_settings(
    tmp_path: Path,
) -> None:
    async def play(nodes: Nodes) -> None:
        await nodes.start(1)
        await until(lambda: nodes.all_applied(1))
        end = nodes.quorum(1).log_end_offset
        await nodes.stop(1)
        port = free_ports(1)[0]
        settings = {
            "process.roles": "controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "log.dirs": str(tmp_path / "node1"),
        }
        node = Node(assemble(settings, {}), structlog.get_logger())
        await node.start()
        quorum = node._metadata.quorum
        await until(lambda: quorum.leader_id == 1)
        assert quorum.kraft_version == 0
        assert quorum.log_end_offset > end
        await node.stop()

    run(tmp_path, play, count=1)


def test_voters_in_the_directory_replace_those_of_the_settings(tmp_path: Path) -> None:
    async def play(nodes: Nodes) -> None:
        nodes.environment = {"CLUSTER_ID": CLUSTER_ID}
        directory = str(tmp_path / "node1")
        listeners = {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1", "log.dirs": directory}
        alone = Node(assemble(listeners, {"CLUSTER_ID": CLUSTER_ID}), structlog.get_logger())
        await alone.start()
        await alone.stop()
        with structlog.testing.capture_logs() as logged:
            await nodes.start(1)  # its settings name three voters
        assert any("controller.quorum.voters has no effect" in each["event"] for each in logged)
        assert await nodes.leader() == 1
        assert [voter.node_id for voter in nodes.quorum(1).describe().voters] == [1]
        assert nodes.quorum(1).kraft_version == 1

    run(tmp_path, play)


def test_the_timeouts_and_addresses_of_the_settings_are_those_of_the_replica(tmp_path: Path) -> None:
    async def play(nodes: Nodes) -> None:
        await nodes.start(1)
        settings = nodes.quorum(1)._settings
        assert settings.timeouts == Timeouts(100, 400, 1000, 500, 20)
        assert (settings.request_timeout_s, settings.snapshot_interval_bytes) == (2.0, 20 << 20)
        (voter,) = settings.voters
        (listener,) = settings.listeners
        assert (voter.key.node_id, voter.listeners) == (1, (listener,))
        assert (settings.static, settings.dynamic, settings.recovering) == (True, False, False)
        assert (settings.bootstrap, settings.auto_join, settings.listener) == ((), False, "CONTROLLER")

    run(tmp_path, play, count=1)

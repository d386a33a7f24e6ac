"""Three replicas of the metadata quorum over real logs: elections, commits, restarts, divergence and snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.support.raft_nodes import RaftNodes, until


def run(folder: Path, play: Callable[[RaftNodes], Awaitable[None]], **options: int) -> None:
    async def main() -> None:
        cluster = RaftNodes(folder, **options)
        cluster.start()
        try:
            await asyncio.wait_for(play(cluster), 60)
        finally:
            cluster.close()
        assert [error for node in cluster.nodes for error in node.errors] == []

    asyncio.run(main())


def test_committed_values_reach_every_replica_and_observers(tmp_path: Path) -> None:
    async def play(cluster: RaftNodes) -> None:
        await cluster.wait_leader()
        for number in range(20):
            cluster.append(b"%d" % number)
        expected = [b"%d" % number for number in range(20)]
        await until(lambda: all(node.values == expected for node in cluster.nodes))

    run(tmp_path, play, observers=1)


def test_directories_of_static_voters_are_not_described(tmp_path: Path) -> None:
    async def play(cluster: RaftNodes) -> None:
        leader = (await cluster.wait_leader()).quorum
        assert leader is not None
        await until(lambda: bool(leader.describe().observers))
        status = leader.describe()
        assert [voter.directory_id.int for voter in status.voters] == [0, 0, 0]
        assert [observer.directory_id.int for observer in status.observers] == [4]

    run(tmp_path, play, observers=1)


def test_a_killed_leader_is_replaced_and_catches_up(tmp_path: Path) -> None:
    async def play(cluster: RaftNodes) -> None:
        first = await cluster.wait_leader()
        cluster.append(b"one")
        await until(lambda: all(node.values == [b"one"] for node in cluster.nodes))
        first.kill()
        for node in cluster.nodes:
            if node.quorum is not None:
                node.quorum.peer_lost(first.node_id)
        second = await cluster.wait_leader()
        assert second is not first
        cluster.append(b"two")
        await until(lambda: second.values == [b"one", b"two"])
        first.start()
        await until(lambda: first.values == [b"one", b"two"])

    run(tmp_path, play)


def test_all_replicas_restart_with_everything_that_was_committed(tmp_path: Path) -> None:
    async def play(cluster: RaftNodes) -> None:
        for round_number in range(3):
            await cluster.wait_leader()
            cluster.append(b"%d" % round_number)
            expected = [b"%d" % number for number in range(round_number + 1)]
            await until(lambda: all(node.values == expected for node in cluster.nodes))  # noqa: B023
            for node in cluster.nodes:
                node.kill()
            for node in cluster.nodes:
                node.start()
        await until(lambda: all(node.values == [b"0", b"1", b"2"] for node in cluster.nodes))

    run(tmp_path, play)


def test_records_that_were_not_committed_are_truncated(tmp_path: Path) -> None:
    async def play(cluster: RaftNodes) -> None:
        old = await cluster.wait_leader()
        cluster.append(b"kept")
        await until(lambda: all(node.values == [b"kept"] for node in cluster.nodes))
        others = [node for node in cluster.nodes if node is not old]
        cluster.cut = {(old.node_id, node.node_id) for node in others}
        cluster.cut |= {(node.node_id, old.node_id) for node in others}
        cluster.append(b"lost")
        await until(lambda: any(node.leads is not None for node in others))
        new = next(node for node in others if node.leads is not None)
        assert new.quorum is not None
        new.quorum.append(new.leads or 0, [b"new"])
        await until(lambda: all(node.values == [b"kept", b"new"] for node in others))
        cluster.cut.clear()
        await until(lambda: old.values == [b"kept", b"new"])
        assert old.leads is None

    run(tmp_path, play)


def test_a_replica_that_fell_behind_gets_a_snapshot(tmp_path: Path) -> None:
    async def play(cluster: RaftNodes) -> None:
        leader = await cluster.wait_leader()
        behind = next(node for node in cluster.nodes if node is not leader)
        behind.kill()
        others = [node for node in cluster.nodes if node is not behind]
        for node in others:
            node.kill()
            node.start(snapshot_bytes=2000)
        await cluster.wait_leader()
        expected = []
        for number in range(60):
            expected.append(b"%d" % number * 40)
            cluster.append(expected[-1])
            await until(lambda: all(node.values == expected for node in others))
        behind.start()
        await until(lambda: behind.values == expected)
        assert behind.snapshots >= 1

    run(tmp_path, play)

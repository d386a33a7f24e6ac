"""Replicas of a quorum in one process: real logs in directories, messages encoded and decoded, no sockets."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ottla.base.clock import SystemClock
from ottla.base.errors import OttlaError
from ottla.base.executor import ThreadExecutor
from ottla.base.files import OsDisk
from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.quorum.quorum import CommittedBatch, CommittedSnapshot
from ottla.quorum.raft.timeouts import Timeouts
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.runtime.driver import RaftQuorum
from ottla.quorum.runtime.settings import RaftSettings
from ottla.quorum.runtime.storage_log import StorageRaftLog
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.wire import codec
from ottla.wire.schema import Message

PARTITION = TopicPartition(METADATA_TOPIC, 0)
TIMEOUTS = Timeouts(election_ms=200, fetch_ms=400, election_backoff_max_ms=100, fetch_wait_ms=100)


class NodeIsDown(OttlaError):
    """The other node does not run."""


class RaftNode:
    """One replica; also the listener of its own commits and its leadership."""

    def __init__(self, cluster: RaftNodes, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.directory = cluster.folder / f"node-{node_id}" / str(PARTITION)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.values: list[bytes] = []
        self.snapshots = 0
        self.leads: int | None = None
        self.errors: list[BaseException] = []
        self.quorum: RaftQuorum | None = None

    def start(self, snapshot_bytes: int = 1 << 30) -> None:
        loop = asyncio.get_running_loop()
        disk, clock = OsDisk(), SystemClock()
        self.executor = ThreadExecutor(loop.call_soon_threadsafe, 1)
        config = LogConfig(flush_messages=1, retention_ms=-1, file_delete_delay_ms=0, segment_bytes=4096)
        log = open_log(
            disk,
            str(self.directory),
            PARTITION,
            METADATA_TOPIC_ID,
            config,
            last=LastKnown(cut_good=False),
            rng=Random(self.node_id),
            now_ms=clock.now_ms(),
        )
        voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(self.cluster.voters))
        local = ReplicaKey(self.node_id, uuid.UUID(int=1 + self.node_id))
        settings = RaftSettings("cluster", local, voters, snapshot_bytes, TIMEOUTS)
        self.values, self.leads = [], None
        raft_log = StorageRaftLog(disk, str(self.directory), log, self.executor, clock)
        self.quorum = RaftQuorum(
            settings,
            disk,
            str(self.directory),
            raft_log,
            Wires(self.cluster, self.node_id),
            loop,
            clock,
            self.executor,
            Random(self.node_id),
        )
        self.quorum.start(self, self)

    def kill(self) -> None:
        """End without a clean stop: what was submitted to the disk is finished, nothing else."""
        if self.quorum is not None:
            self.quorum.close()
            self.quorum = None
            self.executor.close()

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            self.values += batch.values
        if self.quorum is not None and self.quorum.snapshot_due:
            last = batches[-1]
            self.quorum.write_snapshot(last.last_offset, last.epoch, tuple(self.values))

    def load_snapshot(self, snapshot: CommittedSnapshot) -> None:
        self.values = list(snapshot.values)
        self.snapshots += 1

    def leading(self, epoch: int) -> None:
        self.leads = epoch

    def resigned(self, epoch: int) -> None:
        self.leads = None

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)


class Wires:
    """Carries encoded messages between the nodes of one process."""

    def __init__(self, cluster: RaftNodes, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def set_address(self, node_id: int, host: str, port: int) -> None:
        """The nodes of one process need no addresses."""

    def request(
        self, node_id: int, message: Message, response: type[Any], *, timeout_s: float, versions: range | None
    ) -> Promise[Any]:
        loop = asyncio.get_running_loop()
        promise: Promise[Any] = Promise()
        version = (versions or range(1))[-1]
        data = codec.encode(message, version)

        def deliver() -> None:
            receiver = self._cluster.nodes[node_id].quorum
            if receiver is None or (self._node_id, node_id) in self._cluster.cut:
                promise.fail(NodeIsDown())
                return
            decoded = codec.decode(type(message), memoryview(data), version)
            receiver.receive(decoded).when_done(respond)

        def respond(result: Message | None, error: BaseException | None) -> None:
            if result is None:  # the receiver has stopped
                if not promise.done:
                    promise.fail(NodeIsDown())
                return
            if (node_id, self._node_id) in self._cluster.cut:
                return
            answer = codec.encode(result, version)
            loop.call_soon(
                lambda: promise.done or promise.keep(codec.decode(response, memoryview(answer), version))
            )

        loop.call_soon(deliver)
        loop.call_later(timeout_s, lambda: promise.done or promise.fail(NodeIsDown()))
        return promise


class RaftNodes:
    def __init__(self, folder: Path, voters: int = 3, observers: int = 0) -> None:
        self.folder = folder
        self.voters = voters
        self.cut: set[tuple[int, int]] = set()
        self.nodes: list[RaftNode] = []
        self.nodes += [RaftNode(self, node_id) for node_id in range(voters + observers)]

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def close(self) -> None:
        for node in self.nodes:
            node.kill()

    def leader(self) -> RaftNode | None:
        leaders = [node for node in self.nodes if node.leads is not None and node.quorum is not None]
        return max(leaders, key=lambda node: node.leads or 0, default=None)

    async def wait_leader(self) -> RaftNode:
        await until(lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        return leader

    def append(self, value: bytes) -> None:
        leader = self.leader()
        assert leader is not None
        assert leader.quorum is not None
        assert leader.leads is not None
        leader.quorum.append(leader.leads, [value])


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own timeout ends it."""
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0.005)

"""The driver of the quorum core: nothing that depends on the election state leaves this node before it is durable."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ottla.base.promise import Promise
from ottla.quorum.quorum_state import FILE_NAME, read_quorum_state
from ottla.quorum.raft.driver import RaftQuorum, RaftSettings
from ottla.quorum.raft.messages import OffsetAndEpoch, Vote, VoteResponse
from ottla.quorum.raft.storage_log import StorageRaftLog
from ottla.quorum.raft.translation import decode_response, encode_request
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from ottla.wire.messages.vote import VoteRequest
from ottla.wire.schema import Message

CLUSTER = "c" * 22
PARTITION = TopicPartition(METADATA_TOPIC, 0)
DIRECTORY = f"/d/{PARTITION}"


class Timer:
    def cancel(self) -> None:
        """Do nothing."""


class Node:
    """Node 0 of three voters. Its election state is written when `executor` makes a step."""

    def __init__(self) -> None:
        self.now = 100.0
        self.disk = SimDisk(random.Random(1))
        self.disk.makedirs(DIRECTORY)
        self.executor = InlineExecutor(stepped=True)
        self.sent: list[tuple[int, Message]] = []
        self.timer: Callable[[], None] | None = None
        log = open_log(
            self.disk,
            DIRECTORY,
            PARTITION,
            METADATA_TOPIC_ID,
            LogConfig(flush_messages=1),
            last=LastKnown(clean=True),
            rng=random.Random(1),
            now_ms=0,
        )
        voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(3))
        self.quorum = RaftQuorum(
            RaftSettings(CLUSTER, ReplicaKey(0), voters, 1 << 30),
            self.disk,
            DIRECTORY,
            StorageRaftLog(self.disk, DIRECTORY, log, InlineExecutor(), self),
            self,
            self,
            self,
            self.executor,
            random.Random(1),
        )
        listener: Any = None
        self.quorum.start(listener, listener)
        self.executor.run_all()
        self.sent.clear()

    # The ports

    def time(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        self.timer = callback
        return Timer()

    def call_soon(self, callback: Callable[[], None], /) -> Any:
        callback()

    def request(
        self, node_id: int, message: Message, response: type[Any], *, timeout_s: float, versions: range | None
    ) -> Promise[Any]:
        self.sent.append((node_id, message))
        return Promise()

    @property
    def durable_vote(self) -> tuple[int, int]:
        """Epoch and vote that survive a power failure now."""
        stored = read_quorum_state(self.disk.crash(Survival.NONE), f"{DIRECTORY}/{FILE_NAME}")
        return stored.leader_epoch, stored.voted_id

    def receive(self, vote: Vote) -> Promise[Message]:
        return self.quorum.receive(encode_request(vote, CLUSTER).message)


def test_a_vote_is_durable_before_its_response() -> None:
    node = Node()
    response = node.receive(Vote(ReplicaKey(1), ReplicaKey(0), 7, OffsetAndEpoch(0, 0), False))

    while not response.done:
        assert node.durable_vote != (7, 1)
        assert node.executor.step()

    assert node.durable_vote == (7, 1)
    decoded = decode_response(response.result())
    assert isinstance(decoded, VoteResponse)
    assert decoded.granted


def test_a_candidate_requests_votes_when_its_own_vote_is_durable() -> None:
    node = Node()
    node.now += 10
    assert node.timer is not None
    node.timer()  # a pre-vote, which changes no state
    node.executor.run_all()
    node.sent.clear()
    node.quorum._step(lambda now_ms: node.quorum._core._count_vote(now_ms, 1, granted=True))
    node.quorum._step(node.quorum._core.tick)

    assert [message for _, message in node.sent if isinstance(message, VoteRequest)] == []
    assert node.executor.step()
    assert node.durable_vote == (1, 0)
    assert {node_id for node_id, message in node.sent if isinstance(message, VoteRequest)} == {1, 2}

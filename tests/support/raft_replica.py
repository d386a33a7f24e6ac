"""One replica of a quorum on a simulated disk: time and network are those of the test."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.base.errors import ErrorCode, OttlaError
from ottla.base.promise import Promise
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.messages import BeginEpoch, Fetch, FetchResponse, Request, Response, Vote, VoteResponse
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.runtime.driver import RaftQuorum
from ottla.quorum.runtime.settings import RaftSettings
from ottla.quorum.runtime.storage_log import StorageRaftLog
from ottla.quorum.runtime.translation import decode_request, decode_response, encode_request, encode_response
from ottla.testing.disk import SimDisk
from ottla.testing.executor import InlineExecutor
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.schema import Message
from tests.support.quorum import Recorder
from tests.support.raft_log import DIRECTORY, opened

CLUSTER = "c" * 22
WALL_MS = 1_700_000_000_000


class Unreachable(OttlaError):
    """The other node does not respond."""


@dataclass
class Timer:
    at: float
    delay: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Sent:
    """A request that the replica has sent."""

    node_id: int
    request: Request
    response: type[Any]
    timeout_s: float
    versions: range | None
    message: Any
    promise: Promise[Any] = field(default_factory=Promise)


class Replica:
    """Node 0 of some voters, and what it has sent, delivered and reported.

    Work waits in `executor` until `run`, a step, or `advance`, which lets time pass.
    """

    def __init__(
        self,
        disk: SimDisk | None = None,
        *,
        voters: int = 3,
        interval: int = 1 << 30,
        listeners: tuple[ListenerAddress, ...] = (),
        own: tuple[ListenerAddress, ...] = (),
        **settings: Any,
    ) -> None:
        self.now = 100.0
        self.disk = disk or SimDisk(random.Random(1))
        self.disk.makedirs(DIRECTORY)
        self.executor = InlineExecutor(stepped=True)
        self.sent: list[Sent] = []
        self.addresses: dict[int, tuple[str, int]] = {}
        self.timers: list[Timer] = []
        self.soon: list[Callable[[], None]] = []
        self.seen = Recorder()
        self.recovered = 0
        self.foreign = 0
        self.log = StorageRaftLog(self.disk, DIRECTORY, opened(self.disk), self.executor, self)
        voter_set = VoterSet(Voter(ReplicaKey(node_id), listeners) for node_id in range(voters))
        self.quorum = RaftQuorum(
            RaftSettings(CLUSTER, ReplicaKey(0), voter_set, interval, listeners=own, **settings),
            self.disk,
            DIRECTORY,
            self.log,
            self,
            self,
            self,
            self.executor,
            random.Random(1),
            on_recovered=self._on_recovered,
            on_foreign=self._on_foreign,
        )

    def start(self) -> Replica:
        self.quorum.start(self.seen, self.seen)
        self.run()
        return self

    def _on_recovered(self) -> None:
        self.recovered += 1

    def _on_foreign(self) -> None:
        self.foreign += 1

    # The ports

    def set_address(self, node_id: int, host: str, port: int) -> None:
        self.addresses[node_id] = (host, port)

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return WALL_MS + round(self.now * 1000)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        timer = Timer(self.now + delay, delay, callback)
        self.timers.append(timer)
        return timer

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.soon.append(callback)

    def request(
        self, node_id: int, message: Message, response: type[Any], *, timeout_s: float, versions: range | None
    ) -> Promise[Any]:
        is_quorum = not isinstance(message, ApiVersionsRequest | AddRaftVoterRequest)
        request: Any = decode_request(message, CLUSTER) if is_quorum else message
        sent = Sent(node_id, request, response, timeout_s, versions, message)
        self.sent.append(sent)
        return sent.promise

    # What the test does

    @property
    def armed(self) -> list[Timer]:
        """The timers that have not been cancelled and not been called."""
        return [timer for timer in self.timers if not timer.cancelled]

    def run(self) -> None:
        """Do all work that waits, without passing time."""
        while self.soon or self.executor.waiting:
            for callback in [self.soon.pop(0) for _ in range(len(self.soon))]:
                callback()
            self.executor.run_all()

    def advance(self, seconds: float) -> None:
        """Let time pass: timers are called when they are due, and all work is done."""
        end = self.now + seconds
        while due := [timer for timer in self.armed if timer.at <= end]:
            timer = min(due, key=lambda one: one.at)
            timer.cancelled = True
            self.now = max(self.now, timer.at) + 1e-6
            timer.callback()
            self.run()
        self.now = max(self.now, end)

    def outstanding(self, node_id: int) -> Sent:
        """The latest request to a node; it has no response yet."""
        sent = [one for one in self.sent if one.node_id == node_id][-1]
        assert not sent.promise.done
        return sent

    def answer(self, node_id: int, response: Response) -> None:
        """Respond to the latest request to a node."""
        self.outstanding(node_id).promise.keep(encode_response(response, 0))

    def receive(self, request: Request) -> Promise[Message]:
        """A request arrives."""
        return self.quorum.receive(encode_request(request, CLUSTER).message)

    def ask(self, request: Request) -> Any:
        """The response to a request."""
        promise = self.receive(request)
        self.run()
        return decode_response(promise.result())

    def kinds(self, kind: type[Request]) -> list[Any]:
        """The requests of a kind that were sent."""
        return [one.request for one in self.sent if isinstance(one.request, kind)]

    def nominate(self) -> None:
        """Become a candidate with the pre-vote of node 1. Its own vote is not durable yet."""
        while not self.kinds(Vote):
            self.advance(0.125)
        self.answer(1, VoteResponse(ErrorCode.NONE, self.quorum.epoch, -1, True))

    def elect(self) -> int:
        """Win an election with the vote of node 1, and return the epoch. Nothing of it is committed yet."""
        self.nominate()
        self.run()
        epoch = self.quorum.epoch
        self.answer(1, VoteResponse(ErrorCode.NONE, epoch, -1, True))
        self.run()
        return epoch

    def fetch(
        self, offset: int, *, node_id: int = 1, wait_ms: int = 0, high_watermark: int = 0
    ) -> Promise[Message]:
        """Another replica fetches, so it has everything below `offset`."""
        epoch = self.quorum.epoch
        last_epoch = epoch if offset else 0
        return self.receive(Fetch(ReplicaKey(node_id), epoch, offset, last_epoch, high_watermark, wait_ms))

    def lead(self) -> int:
        """Win an election and commit the first batch of the epoch; returns the epoch."""
        epoch = self.elect()
        self.fetch(self.log.end_offset)
        self.run()
        return epoch

    def follow(self, epoch: int = 5) -> None:
        """Follow node 1."""
        self.ask(BeginEpoch(1, ReplicaKey(0), epoch))

    def respond(self, high_watermark: int, records: bytes = b"", epoch: int = 5) -> None:
        """The leader, node 1, responds to the outstanding fetch."""
        self.answer(1, FetchResponse(ErrorCode.NONE, epoch, 1, high_watermark, records))

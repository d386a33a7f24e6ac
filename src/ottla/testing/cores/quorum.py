"""Simulates the quorum's core alone: replicas in virtual time, with crashes, lost disks and messages, cut links.

Every event draws from one seeded generator, so a seed repeats a run exactly. After each event the checker compares
what the replicas did with the invariants of the protocol:

- one leader at most per epoch; epochs and high watermarks never go back; one vote per epoch, across restarts;
- what is committed at an offset is the same on all replicas and never changes;
- a new leader has every committed record;
- when faults end, a leader is elected, and all replicas catch up, within a deadline;
- when a leader fails permanently, the remaining majority elects another, with or without evidence of the failure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.base.rng import Random
from ottla.quorum.quorum import NotLeader
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    Committed,
    Effect,
    ElectionState,
    LeaderChanged,
    Persist,
    Recovered,
    Request,
    Respond,
    Send,
    SnapshotInstalled,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.timeouts import Timeouts
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.testing.cores.event_queue import EventQueue, Violation
from ottla.testing.cores.memory_log import EMPTY, Batch, Image, MemoryLog

_CHAOS_MS = 30_000
_HEALED_MS = 15_000
_FAILOVER_MS = 10_000
_REQUEST_TIMEOUT_MS = 2_000


@dataclass
class Summary:
    """What happened in one run."""

    seed: int
    events: int = 0
    elections: int = 0
    kills: int = 0
    replaced: int = 0
    changes: int = 0
    committed: int = 0
    trace: int = 0


@dataclass
class Replica:
    """One node: what survives a crash (image, state), and the core while it runs."""

    node_id: int
    image: Image = EMPTY
    state: ElectionState = field(default_factory=ElectionState)
    core: Core | None = None
    log: MemoryLog = field(default_factory=MemoryLog)
    life: int = 0
    waiting: list[Effect] = field(default_factory=list)
    persisting: bool = False
    wake_at: float = -1.0
    paused_until: float = 0.0
    checked_offset: int = 0
    recovering: bool = False
    """It has lost its disk and does not vote yet."""


class QuorumSimulation(EventQueue):
    """One run."""

    sizes = (1, 3, 3, 3, 5)
    observers = (0, 0, 1)

    def __init__(self, seed: int, *, voters: int | None = None) -> None:
        super().__init__()
        self.rng = Random(seed)
        self.summary = Summary(seed)
        count = voters or self.rng.choice(self.sizes)
        observers = self.rng.choice(self.observers)
        keys = [ReplicaKey(node_id) for node_id in range(count)]
        self.voters = VoterSet(Voter(key) for key in keys)
        self.replicas = [Replica(node_id) for node_id in range(count + observers)]
        self.cut: set[tuple[int, int]] = set()
        self.loss = self.rng.choice([0.0, 0.01, 0.05])
        self.slow = self.rng.choice([0.0, 0.02, 0.1])
        self.evidence = self.rng.choice([0.0, 0.5, 1.0])
        self.append_interval_ms = self.rng.choice([20, 60, 200])
        self.chaos = True
        self._leader_of: dict[int, int] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._epochs: dict[int, int] = {}
        self._committed: dict[int, tuple[Any, ...]] = {}
        self._committed_end = 0
        self._value = 0

    # Events

    def run(self) -> Summary:
        for replica in self.replicas:
            self.later(self.rng.uniform(0, 50), lambda replica=replica: self.boot(replica))  # type: ignore[misc]
        self.later(self.rng.expovariate(1 / 400), self.fault)
        self.later(5, self.client)
        self.run_until(_CHAOS_MS)
        self.heal()
        self.run_until(_CHAOS_MS + _HEALED_MS)
        self.check_converged()
        self.check_failover()
        self.summary.events = self.events
        self.summary.committed = self._committed_end
        return self.summary

    def boot(self, replica: Replica) -> None:
        if replica.core is not None:
            return
        replica.life += 1
        replica.log = MemoryLog(replica.image)
        replica.waiting, replica.persisting, replica.wake_at = [], False, -1.0
        replica.paused_until = 0.0
        replica.checked_offset = replica.log.start_offset
        replica.core = self.new_core(replica, Random(self.rng.random()))
        self.step(replica, lambda core: core.start(self.now))

    def new_core(self, replica: Replica, rng: Random) -> Core:
        return Core(
            ReplicaKey(replica.node_id),
            self.voters,
            replica.log,
            replica.state,
            rng,
            Timeouts(),
            recovering=replica.recovering,
        )

    def crash(self, replica: Replica) -> None:
        if replica.core is None:
            return
        self.summary.kills += 1
        replica.image = replica.log.crash(self.rng.choice([0, 0, 1, 2, 100]))
        replica.core = None
        replica.life += 1
        for other in self.replicas:
            if other is not replica and self.rng.random() < self.evidence:
                self.later(self.rng.uniform(0, 5), lambda other=other: self.lost(other, replica))  # type: ignore[misc]

    def replace_disk(self, replica: Replica) -> None:
        """Restart a voter with an empty disk, unless another one has not recovered from that yet."""
        if len(self.voters) < 3 or any(one.recovering for one in self.replicas):
            return
        self.crash(replica)
        self.summary.replaced += 1
        replica.image, replica.state = EMPTY, ElectionState()
        replica.recovering = replica.node_id in self.voters.ids

    def lost(self, observer: Replica, gone: Replica) -> None:
        self.step(observer, lambda core: core.peer_lost(self.now, gone.node_id))

    def step(self, replica: Replica, act: Callable[[Core], None]) -> None:
        core = replica.core
        if core is None:
            return
        if replica.paused_until > self.now:
            life = replica.life
            self.later(
                replica.paused_until - self.now,
                lambda: self.step(replica, act) if replica.life == life else None,
            )
            return
        act(core)
        self.finish(replica, core)

    def finish(self, replica: Replica, core: Core) -> None:
        """Execute the effects of a step, and see to writes and timers."""
        self.check_epoch(replica, core)
        replica.waiting += core.take_effects()
        self.execute(replica)
        if replica.log.has_unfinished_writes and not replica.persisting:
            self.write(replica)
        wake_at = core.wake_at_ms()
        if wake_at != replica.wake_at:
            replica.wake_at = wake_at
            life = replica.life
            delay = max(wake_at - self.now, 0.0)
            self.later(delay, lambda: self.wake(replica, life, wake_at))

    def wake(self, replica: Replica, life: int, at: float) -> None:
        if replica.life == life and replica.wake_at == at:
            replica.wake_at = -1.0
            self.step(replica, lambda core: core.tick(self.now))

    def write(self, replica: Replica) -> None:
        """One write of the log at a time; the election state waits for it and it for the election state."""
        life = replica.life
        replica.persisting = True

        def done() -> None:
            if replica.life != life:
                return
            replica.persisting = False
            if replica.log.has_unfinished_writes:
                replica.log.finish_write()
            self.step(replica, lambda core: core.durable(self.now))

        self.later(self.disk_ms(), done)

    def execute(self, replica: Replica) -> None:
        while replica.waiting and not replica.persisting:
            effect = replica.waiting.pop(0)
            match effect:
                case Persist(state):
                    self.persist(replica, state)
                case Send(node_id, request):
                    self.send(replica, node_id, request)
                case Respond(token, response):
                    self.check_vote(replica, response)
                    token(response)  # type: ignore[operator]
                case Committed(offset):
                    self.check_committed(replica, offset)
                case LeaderChanged(epoch, leader_id, _) if leader_id == replica.node_id:
                    self.check_leader(replica, epoch)
                case SnapshotInstalled(snapshot):
                    replica.checked_offset = snapshot.offset
                case Recovered():
                    replica.recovering = False
                case _:
                    self.changed(replica, effect)

    def changed(self, replica: Replica, effect: Effect) -> None:
        """An effect of a change of the voters; static voters do not change."""

    def persist(self, replica: Replica, state: ElectionState) -> None:
        life = replica.life
        replica.persisting = True

        def done() -> None:
            if replica.life == life:
                replica.state = state
                replica.persisting = False
                self.execute(replica)
                if replica.core is not None:
                    self.finish(replica, replica.core)

        self.later(self.disk_ms(), done)

    def disk_ms(self) -> float:
        return self.rng.uniform(0.1, 0.5) if self.rng.random() > self.slow else self.rng.uniform(1, 300)

    # Network

    def send(self, sender: Replica, node_id: int, request: Request) -> None:
        receiver = self.replicas[node_id]
        life = sender.life

        def respond(response: Any) -> None:
            if self.passes(receiver.node_id, sender.node_id):
                self.later(
                    self.link_ms(), lambda: self.deliver_response(sender, life, node_id, request, response)
                )

        def arrive() -> None:
            if receiver.core is not None:
                self.step(receiver, lambda core: core.receive(self.now, respond, request))

        def give_up() -> None:
            if sender.life == life:
                self.step(sender, lambda core: core.failed(self.now, node_id, request))

        if self.passes(sender.node_id, node_id):
            self.later(self.link_ms(), arrive)
        self.later(_REQUEST_TIMEOUT_MS if receiver.core else 1, give_up)

    def deliver_response(
        self, sender: Replica, life: int, node_id: int, request: Request, response: Any
    ) -> None:
        if sender.life == life:
            self.step(sender, lambda core: core.responded(self.now, node_id, request, response))

    def passes(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self.cut and self.rng.random() >= self.loss

    def link_ms(self) -> float:
        return self.rng.uniform(0.05, 1.0) if self.rng.random() > self.slow else self.rng.uniform(1, 3000)

    # Faults and load

    def fault(self) -> None:
        if not self.chaos:
            return
        rng = self.rng
        replica = rng.choice(self.replicas)
        match rng.randrange(7):
            case 0 | 1:
                self.crash(replica)
                self.later(rng.expovariate(1 / 800), lambda: self.boot(replica))
            case 2:
                leaders = [one for one in self.replicas if one.core and one.core.role is Role.LEADER]
                target = rng.choice(leaders or self.replicas)
                self.crash(target)
                self.later(rng.expovariate(1 / 800), lambda: self.boot(target))
            case 3:
                ids = range(len(self.replicas))
                self.cut = {
                    (a, b) for a in ids for b in ids if a != b and rng.random() < rng.choice([0.2, 0.6])
                }
                self.later(rng.expovariate(1 / 1500), self.cut.clear)
            case 4:
                replica.paused_until = self.now + rng.expovariate(1 / 1500)
            case 5:
                self.lost(rng.choice(self.replicas), replica)
            case 6:
                self.replace_disk(replica)
                self.later(rng.expovariate(1 / 800), lambda: self.boot(replica))
        self.later(rng.expovariate(1 / 700), self.fault)

    def heal(self) -> None:
        self.chaos = False
        self.cut.clear()
        self.loss = self.slow = 0.0
        for replica in self.replicas:
            replica.paused_until = 0.0
            self.boot(replica)

    def client(self) -> None:
        """Append on every replica in the role of leader; sometimes take a snapshot."""
        for replica in self.replicas:
            core = replica.core
            if core is not None and core.role is Role.LEADER and replica.paused_until <= self.now:
                values = [self._next_value() for _ in range(self.rng.choice([1, 1, 3]))]
                try:
                    core.append(self.now, core.epoch, values)
                except NotLeader:
                    continue
                self.finish(replica, core)
            if core is not None and self.rng.random() < 0.002 and core.high_watermark > 0:
                replica.log.take_snapshot(core.high_watermark, core.history.controls_at)
        self.later(self.rng.expovariate(1 / self.append_interval_ms), self.client)

    def _next_value(self) -> bytes:
        self._value += 1
        return b"%d" % self._value

    # Invariants

    def check_epoch(self, replica: Replica, core: Core) -> None:
        known = self._epochs.get(replica.node_id, 0)
        if core.epoch < known and core.epoch < replica.state.epoch:
            raise Violation(f"node {replica.node_id} went back from epoch {known} to {core.epoch}")
        self._epochs[replica.node_id] = core.epoch
        if core.high_watermark > replica.log.end_offset:
            raise Violation(f"node {replica.node_id} has a high watermark above its log end")

    def check_vote(self, replica: Replica, response: Any) -> None:
        core = replica.core
        if isinstance(response, VoteResponse) and response.granted and core and core.voted:
            key = (core.local, response.epoch)
            if core.epoch == response.epoch and self._votes.setdefault(key, core.voted) != core.voted:
                raise Violation(f"node {replica.node_id} voted twice in epoch {response.epoch}")

    def check_leader(self, replica: Replica, epoch: int) -> None:
        self.summary.elections += 1
        if self._leader_of.setdefault(epoch, replica.node_id) != replica.node_id:
            raise Violation(f"epoch {epoch} has two leaders")
        self._compare(replica, self._committed_end, "a leader lacks or contradicts committed records")

    def check_committed(self, replica: Replica, offset: int) -> None:
        if offset > replica.log.end_offset:
            raise Violation("records beyond the log end were committed")
        self._compare(replica, offset, "committed records differ", record=True)
        self._committed_end = max(self._committed_end, offset)

    def check_failover(self) -> None:
        """Kill the leader permanently: the remaining majority must elect another and commit."""
        if len(self.voters) < 3:
            return
        old = next(one for one in self.replicas if one.core is not None and one.core.role is Role.LEADER)
        self.crash(old)
        before = self._committed_end
        self.run_until(self.now + _FAILOVER_MS)
        leaders = [one for one in self.replicas if one.core is not None and one.core.role is Role.LEADER]
        if len(leaders) != 1 or self._committed_end <= before:
            raise Violation(f"{len(leaders)} leaders {_FAILOVER_MS} ms after the leader died")

    def _compare(self, replica: Replica, offset: int, complaint: str, *, record: bool = False) -> None:
        log = replica.log
        batches, covered = log.batches, log.start_offset
        # What was compared when it was committed is not compared again, except for a new leader.
        first = bisect_right(batches, replica.checked_offset, key=_end_offset) if record else 0
        if first:
            covered = batches[first - 1].end_offset
        for at in range(first, len(batches)):
            batch = batches[at]
            if batch.base_offset >= offset:
                break
            covered = batch.end_offset
            found = (batch.epoch, batch.values, batch.controls)
            known = (
                self._committed.setdefault(batch.base_offset, found)
                if record
                else self._committed.get(batch.base_offset, found)
            )
            if known != found:
                raise Violation(f"{complaint}: offset {batch.base_offset} on node {replica.node_id}")
        if covered < offset:
            raise Violation(f"{complaint}: node {replica.node_id} ends at {covered}, committed is {offset}")
        if record:
            replica.checked_offset = max(replica.checked_offset, offset)

    def check_converged(self) -> None:
        cores = [replica.core for replica in self.replicas if replica.core is not None]
        leaders = [core for core in cores if core.role is Role.LEADER]
        if len(leaders) != 1:
            raise Violation(f"{len(leaders)} leaders after the faults have ended: {[c.role for c in cores]}")
        leader = leaders[0]
        for core in cores:
            if core.epoch != leader.epoch or core.high_watermark < leader.high_watermark - 200:
                raise Violation(
                    f"node {core.local.node_id} is at epoch {core.epoch}, high watermark {core.high_watermark}; "
                    f"the leader at {leader.epoch}, {leader.high_watermark}"
                )
        if leader.high_watermark <= 0:
            raise Violation("nothing was committed")
        self.summary.trace = hash((self._committed_end, self.events, leader.epoch, self._value))


def _end_offset(batch: Batch) -> int:
    return batch.end_offset

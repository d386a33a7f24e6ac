"""Simulates the replication of one partition: leaders, followers and the ISR in virtual time, with faults.

The code under test is `replication.partition` with `replication.leader`, `replication.isr_requests`,
`replication.follower` and `controller.partition_change`. Logs, network, clocks and the rest of the controller are
simulated. Every event draws from one seeded generator, so a seed repeats a run exactly.

After each event the checker compares the replicas with what must hold:

- a leader epoch has one leader; what is committed at an offset never changes;
- a record is committed only when it is durable on every replica of the maximal ISR and of the controller's ISR;
- a new leader has every committed record; a replica has nothing else below its high watermark;
- the high watermark of a leader never moves back; an acknowledged record is committed;
- when the faults end, all replicas are in the ISR and equal, and records are acknowledged, within a deadline.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.replication.cluster_view import ClusterView
from ottla.replication.follower import Action, Fetched, FetchPosition, FollowerState
from ottla.replication.isr_requests import IsrRequests
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.storage.log.log_config import LogConfig
from ottla.testing.cores.partition_controller import TOPIC_ID, PartitionController
from ottla.testing.cores.quorum import Violation
from ottla.testing.cores.replica_log import Batch, Image, ReplicaLog
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

_CHAOS_MS = 40_000
_HEALED_MS = 12_000
_HEARTBEAT_MS = 150
_SESSION_MS = 900
_FETCH_TIMEOUT_MS = 700
_FETCH_WAIT_MS = 60
_BACKOFF_MS = 40
MAX_WAIT_BYTES = 1 << 20


@dataclass
class ReplicationSummary:
    """What happened in one run."""

    seed: int
    events: int = 0
    elections: int = 0
    kills: int = 0
    committed: int = 0
    acknowledged: int = 0
    isr_changes: int = 0
    truncations: int = 0
    trace: int = 0


class Response:
    """The leader's response to a fetch of one partition."""

    __slots__ = ("batches", "fetched")

    def __init__(self, fetched: Fetched, batches: tuple[Batch, ...] = ()) -> None:
        self.fetched = fetched
        self.batches = batches


class _Clock:
    def __init__(self, simulation: ReplicationSimulation) -> None:
        self._simulation = simulation

    def now_ms(self) -> int:
        return int(self._simulation.now)

    def monotonic(self) -> float:
        return self._simulation.now / 1000


class _Ack:
    """Waits for the acknowledgement of one record."""

    def __init__(self, simulation: ReplicationSimulation, batch: Batch) -> None:
        self._simulation = simulation
        self._batch = batch

    def append_done(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._simulation.acknowledged.append(self._batch)


class _ParkedFetch:
    """A fetch that waits for records."""

    def __init__(self, respond: Callable[[], None]) -> None:
        self._respond = respond

    def partition_moved(self, partition: Partition) -> None:
        self._respond()


class Broker:
    """One node: what survives a crash, and the replica while it runs."""

    def __init__(self, simulation: ReplicationSimulation, node_id: int) -> None:
        self.simulation = simulation
        self.node_id = node_id
        self.image = Image()
        self.life = 0
        self.running = False
        self.paused_until = 0.0
        self.heard_at = 0.0  # when the controller received the last heartbeat
        self.boot_state()

    def boot_state(self) -> None:
        simulation = self.simulation
        self.epoch = -1
        self.applied = 0
        self.log = ReplicaLog(self.image, simulation.config, copies_early=simulation.copies_early)
        self.view = ClusterView(_Clock(simulation), simulation.lag_max_s)
        life = self.life
        self.view.isr_requests = IsrRequests(
            self.node_id,
            lambda: self.epoch,
            lambda request: simulation.alter_partition(self, request),
            lambda delay, call: simulation.later(delay * 1000, simulation.guarded(self, life, call)),
        )
        self.partition = Partition(
            cast(Any, self.log),
            TOPIC_ID,
            self.node_id,
            lambda _: simulation.write(self),
            lambda fault: None,
            self.view,
        )
        self.follower: FollowerState | None = None
        self.outstanding: object | None = None
        self.checked_watermark = self.log.high_watermark
        self.led = -1


class ReplicationSimulation:
    """One run."""

    def __init__(self, seed: int, *, replicas: int | None = None) -> None:
        self.rng = rng = Random(seed)
        self.now = 0.0
        self.summary = ReplicationSummary(seed)
        count = replicas or rng.choice([2, 3, 3, 3, 5])
        self.config = LogConfig(min_insync_replicas=min(count, rng.choice([1, 2, 2])))
        self.copies_early = rng.random() < 0.5
        self.lag_max_s = rng.choice([0.3, 1.0, 3.0])
        self.loss = rng.choice([0.0, 0.02, 0.1])
        self.late = rng.choice([0.0, 0.02, 0.1])
        self.slow_disk = rng.choice([0.0, 0.02, 0.1])
        self.evidence = rng.choice([0.0, 0.7])
        self.metadata_lag_ms = rng.choice([5, 100, 1000])
        self.chaos = True
        self.cut: set[tuple[int, int]] = set()
        ids = tuple(range(1, count + 1))
        self.controller = PartitionController(ids, self.config.min_insync_replicas, self.committed_metadata)
        self.brokers = {node_id: Broker(self, node_id) for node_id in ids}
        self.committed: list[Batch] = []
        self.acknowledged: list[Batch] = []
        """Acknowledged in the current event."""
        self._leaders: dict[int, int] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._value = 0
        self._incarnations = 0

    # Events

    def later(self, delay_ms: float, call: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._sequence, call))

    def run(self) -> ReplicationSummary:
        for broker in self.brokers.values():
            self.boot(broker)
        self.later(5, self.client)
        self.later(1500, self.fault)
        self._run_until(_CHAOS_MS)
        self.heal()
        self._run_until(_CHAOS_MS + _HEALED_MS)
        self.check_converged()
        self.summary.committed = len(self.committed)
        self.summary.trace = hash((self.summary.events, self._value, tuple(self.committed[-20:])))
        return self.summary

    def _run_until(self, end_ms: float) -> None:
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            self.now, _, call = heapq.heappop(queue)
            self.summary.events += 1
            call()
        self.now = end_ms

    def guarded(self, broker: Broker, life: int, call: Callable[[], None]) -> Callable[[], None]:
        """The call as an event of one life of a broker: delayed while it is paused, and checked."""

        def act() -> None:
            if broker.life != life or not broker.running:
                return
            if broker.paused_until > self.now:
                self.later(broker.paused_until - self.now, act)
                return
            call()
            self.check(broker)

        return act

    def soon(self, broker: Broker, delay_ms: float, call: Callable[[], None]) -> None:
        self.later(delay_ms, self.guarded(broker, broker.life, call))

    # Lives of brokers

    def boot(self, broker: Broker) -> None:
        if broker.running:
            return
        broker.life += 1
        broker.running = True
        broker.paused_until = 0.0
        self._incarnations += 1
        broker.boot_state()
        incarnation = self._incarnations
        self.soon(broker, self.rng.uniform(1, 60), lambda: self.register(broker, incarnation))

    def register(self, broker: Broker, incarnation: int) -> None:
        life = broker.life

        def registered() -> None:
            if broker.life == life:
                broker.epoch = self.controller.register(broker.node_id, incarnation, clean=False)
                broker.heard_at = self.now

        self.message(broker.node_id, 0, registered)
        self.soon(broker, 400, lambda: self.register(broker, incarnation) if broker.epoch < 0 else None)
        if broker.epoch < 0:
            self.soon(broker, _HEARTBEAT_MS, lambda: self.heartbeat(broker))
            self.soon(broker, 20, lambda: self.check_isr(broker))

    def heartbeat(self, broker: Broker) -> None:
        epoch, applied = broker.epoch, broker.applied

        def arrived() -> None:
            if self.controller.heartbeat(broker.node_id, epoch, applied):
                broker.heard_at = self.now

        if epoch >= 0:
            self.message(broker.node_id, 0, arrived)
        self.soon(broker, _HEARTBEAT_MS, lambda: self.heartbeat(broker))
        for other in self.brokers.values():
            if self.now - other.heard_at > _SESSION_MS:
                self.controller.fence(other.node_id)

    def check_isr(self, broker: Broker) -> None:
        broker.partition.check_isr()
        self.soon(broker, self.lag_max_s * 500, lambda: self.check_isr(broker))

    def crash(self, broker: Broker, *, power: bool) -> None:
        """Kill a broker. If its machine loses power as well, writes that are not finished may be lost."""
        if not broker.running:
            return
        self.summary.kills += 1
        unfinished = broker.log.log_end_offset - broker.log.committable_offset
        kept = self.rng.randint(0, unfinished) if power else unfinished
        watermark = self.rng.randint(0, broker.log.high_watermark)
        broker.image = broker.log.crash(kept, watermark)
        broker.running = False
        broker.life += 1
        if self.rng.random() < self.evidence:
            self.later(self.rng.uniform(1, 20), lambda: self.evidence_of_death(broker))

    def evidence_of_death(self, broker: Broker) -> None:
        if not broker.running:
            self.controller.fence(broker.node_id)

    # Metadata

    def committed_metadata(self) -> None:
        for broker in self.brokers.values():
            if broker.running:
                self.soon(
                    broker, self.rng.uniform(0.1, self.metadata_lag_ms), lambda one=broker: self.apply(one)
                )  # type: ignore[misc]

    def apply(self, broker: Broker) -> None:
        """Apply the next version of the metadata; nothing happens before the broker's own registration."""
        images = self.controller.images
        if broker.applied + 1 >= len(images):
            return
        broker.applied += 1
        image = images[broker.applied]
        broker.view.brokers = image.brokers
        topic = image.topics.by_id.get(TOPIC_ID)
        if 0 <= broker.epoch <= broker.applied and topic is not None:
            self.become(broker, topic.partitions[0])
            broker.partition.brokers_changed()
        if broker.applied + 1 < len(images):
            self.soon(broker, self.rng.uniform(0.1, 5), lambda: self.apply(broker))

    def become(self, broker: Broker, image: Any) -> None:
        partition = broker.partition
        before = (partition.leader, partition.leader_epoch)
        partition.become(image)
        if partition.leads:
            broker.follower = None
        elif before != (image.leader, image.leader_epoch):
            if broker.follower is not None:
                broker.follower.stop()
            broker.follower = FollowerState(image.leader, image.leader_epoch) if image.leader >= 0 else None
            broker.outstanding = None
            self.fetch(broker)

    def alter_partition(
        self, broker: Broker, request: AlterPartitionRequest
    ) -> Promise[AlterPartitionResponse]:
        promise: Promise[AlterPartitionResponse] = Promise()

        def respond(response: AlterPartitionResponse) -> None:
            if not promise.done:
                promise.keep(response)

        def arrived() -> None:
            before = self.controller.partition
            response = self.controller.alter_partition(request)
            self.summary.isr_changes += self.controller.partition is not before
            life = broker.life
            self.message(0, broker.node_id, self.guarded(broker, life, lambda: respond(response)))

        def expired() -> None:
            if not promise.done:
                promise.fail(TimeoutError())

        self.message(broker.node_id, 0, arrived, duplicates=True)
        self.soon(broker, 800, expired)
        return promise

    # Network and disk

    def message(
        self, sender: int, receiver: int, arrive: Callable[[], None], *, duplicates: bool = False
    ) -> None:
        """Deliver a message late, once, or not at all; some requests may be delivered twice."""
        rng = self.rng
        if (sender, receiver) in self.cut or rng.random() < self.loss:
            return
        for _ in range(2 if duplicates and self.chaos and rng.random() < 0.03 else 1):
            is_late = rng.random() < self.late
            self.later(rng.uniform(1, 3000) if is_late else rng.uniform(0.05, 1.0), arrive)

    def write(self, broker: Broker) -> None:
        log = broker.log
        if not log.can_write:
            return
        log.begin_write()
        delay = self.rng.uniform(1, 300) if self.rng.random() < self.slow_disk else self.rng.uniform(0.1, 0.6)

        def done() -> None:
            log.finish_write()
            broker.partition.progressed()
            follower = broker.follower
            if follower is not None:
                broker.partition.follow_high_watermark(follower.high_watermark(cast(Any, log)))
                self.fetch(broker)
            self.write(broker)

        self.soon(broker, delay, done)
        if broker.partition.leads:
            broker.partition.progressed()

    # The follower

    def fetch(self, broker: Broker) -> None:
        follower = broker.follower
        if follower is None or broker.outstanding is not None:
            return
        position = follower.position(cast(Any, broker.log))
        if position is None:
            return
        token = broker.outstanding = object()
        leader = self.brokers[position.leader_id]
        life, epoch = broker.life, broker.epoch

        def respond(response: Response) -> None:
            self.message(
                leader.node_id,
                broker.node_id,
                self.guarded(broker, life, lambda: self.fetched(broker, follower, token, position, response)),
            )

        def arrived() -> None:
            if leader.running:
                self.guarded(
                    leader, leader.life, lambda: self.serve(leader, broker.node_id, epoch, position, respond)
                )()

        def expired() -> None:
            if broker.outstanding is token:
                broker.outstanding = None
                self.delay(broker, follower, follower.failed().action)

        self.message(broker.node_id, leader.node_id, arrived, duplicates=True)
        self.soon(broker, _FETCH_TIMEOUT_MS, expired)

    def delay(self, broker: Broker, follower: FollowerState, action: Action) -> None:
        if action is not Action.DELAY:
            return

        def resume() -> None:
            follower.resume()
            if broker.follower is follower:
                self.fetch(broker)

        self.soon(broker, _BACKOFF_MS, resume)

    def fetched(
        self,
        broker: Broker,
        follower: FollowerState,
        token: object,
        position: FetchPosition,
        response: Response,
    ) -> None:
        if broker.outstanding is token:
            broker.outstanding = None
        log = cast(Any, broker.log)
        if broker.follower is None:
            return
        # The state of the current term decides whether a response, perhaps of an earlier term, has an effect.
        current = broker.follower
        step = current.fetched(position, response.fetched, log)
        match step.action:
            case Action.APPEND:
                if response.batches:
                    broker.log.append(response.batches)
                    self.write(broker)
                broker.partition.follow_high_watermark(current.high_watermark(log))
            case Action.TRUNCATE | Action.RESTART:
                self.summary.truncations += 1
                self.check_truncation(broker, step.offset)
                broker.log.truncate(max(step.offset, 0))
                broker.checked_watermark = min(broker.checked_watermark, broker.log.high_watermark)

                def truncated() -> None:
                    current.truncated()
                    if broker.follower is current:
                        self.fetch(broker)

                self.soon(broker, self.rng.uniform(0.2, 3), truncated)
            case Action.LOOK_UP:
                self.delay(broker, current, current.failed().action)
            case _:
                self.delay(broker, current, step.action)
        if broker.follower is follower:
            self.fetch(broker)

    # The leader

    def serve(
        self,
        leader: Broker,
        replica_id: int,
        broker_epoch: int,
        position: FetchPosition,
        respond: Callable[[Response], None],
    ) -> None:
        """Respond to a fetch as a broker's Fetch handler does, or wait until there are records."""
        partition = leader.partition
        try:
            response = self._read(leader, replica_id, broker_epoch, position)
        except ApiError as error:
            respond(Response(Fetched(error.code, -1, -1)))
            return
        if response.batches or response.fetched.diverging is not None:
            respond(response)
            return
        finished = False

        def finish() -> None:
            nonlocal finished
            if finished:
                return
            finished = True
            partition.replica_waiters.pop(parked, None)
            try:
                respond(self._read(leader, replica_id, broker_epoch, position, record=False))
            except ApiError as error:
                respond(Response(Fetched(error.code, -1, -1)))

        parked = _ParkedFetch(finish)
        partition.replica_waiters[parked] = None
        self.soon(leader, self.rng.uniform(5, _FETCH_WAIT_MS), finish)

    def _read(
        self,
        leader: Broker,
        replica_id: int,
        broker_epoch: int,
        position: FetchPosition,
        *,
        record: bool = True,
    ) -> Response:
        partition = leader.partition
        partition.check_replica(replica_id, position.leader_epoch)
        read = partition.read_for_replica(
            position.offset, MAX_WAIT_BYTES, last_fetched_epoch=position.last_epoch
        )
        if record and read.diverging is None:
            partition.fetched_by(replica_id, broker_epoch, position.offset, position.log_start_offset)
        fetched = Fetched(0, partition.high_watermark, 0, read.diverging)
        found = cast(Any, read.slice)
        return Response(fetched, () if found is None else found.batches)

    # Load and faults

    def client(self) -> None:
        for broker in self.brokers.values():
            if broker.running and broker.paused_until <= self.now and broker.partition.leads:
                self.produce(broker)
                self.check(broker)
        self.later(self.rng.expovariate(1 / 25), self.client)

    def produce(self, broker: Broker) -> None:
        partition = broker.partition
        try:
            partition.check_append()
        except ApiError:
            if self.rng.random() < 0.9:
                return  # acks=all is refused; acks=1 is accepted
        for _ in range(self.rng.choice([1, 1, 2])):
            self._value += 1
            batch = Batch(broker.log.log_end_offset, partition.leader_epoch, self._value)
            broker.log.append([batch])
            partition.wait_append(broker.log.log_end_offset, ACKS_ALL, _Ack(self, batch))
        self.write(broker)

    def fault(self) -> None:
        if not self.chaos:
            return
        rng = self.rng
        broker = rng.choice(list(self.brokers.values()))
        leaders = [one for one in self.brokers.values() if one.running and one.partition.leads]
        match rng.randrange(8):
            case 0 | 1:
                self._kill(broker)
            case 2 | 3:
                self._kill(rng.choice(leaders or [broker]))
            case 4:
                ids = [0, *self.brokers]
                chance = rng.choice([0.2, 0.5])
                self.cut = {(a, b) for a in ids for b in ids if a != b and rng.random() < chance}
                self.later(rng.expovariate(1 / 1500), self.cut.clear)
            case 5:
                rng.choice(leaders or [broker]).paused_until = self.now + rng.expovariate(1 / 1500)
            case 6:
                self.controller.fence(broker.node_id)  # wrong evidence
            case 7:
                for one in self.brokers.values():
                    self.crash(one, power=True)
                    self.later(rng.expovariate(1 / 700), lambda one=one: self.boot(one))  # type: ignore[misc]
        self.later(rng.expovariate(1 / 900), self.fault)

    def _kill(self, broker: Broker) -> None:
        self.crash(broker, power=self.rng.random() < 0.5)
        self.later(self.rng.expovariate(1 / 900), lambda: self.boot(broker))

    def heal(self) -> None:
        self.chaos = False
        self.cut.clear()
        self.loss = self.late = self.slow_disk = 0.0
        for broker in self.brokers.values():
            broker.paused_until = 0.0
            self.boot(broker)

    # Invariants

    def check(self, broker: Broker) -> None:
        """Check a broker after one of its events."""
        partition, log = broker.partition, broker.log
        if partition.leads and partition.leader_epoch != broker.led:
            broker.led = partition.leader_epoch
            self.check_leader(broker)
        if log.high_watermark != broker.checked_watermark:
            self.check_watermark(broker)
        if self.acknowledged:
            self.check_acknowledged()

    def check_leader(self, broker: Broker) -> None:
        epoch = broker.partition.leader_epoch
        if epoch not in self._leaders:
            self.summary.elections += 1
        if self._leaders.setdefault(epoch, broker.node_id) != broker.node_id:
            raise Violation(f"epoch {epoch} has the leaders {self._leaders[epoch]} and {broker.node_id}")
        if epoch == max(self._leaders) and broker.log.batches[: len(self.committed)] != self.committed:
            raise Violation(
                f"leader {broker.node_id} in epoch {epoch} lacks or contradicts committed records"
            )

    def check_watermark(self, broker: Broker) -> None:
        partition, log = broker.partition, broker.log
        watermark, before = log.high_watermark, broker.checked_watermark
        if watermark < before:
            raise Violation(f"the high watermark of {broker.node_id} went back from {before} to {watermark}")
        broker.checked_watermark = watermark
        known = self.committed[before:watermark]
        if log.batches[before : before + len(known)] != known:
            raise Violation(
                f"{broker.node_id} has other records below its high watermark than were committed"
            )
        new = log.batches[len(self.committed) : watermark]
        if not new:
            return
        if not partition.leads or partition._leading is None:
            raise Violation(f"{broker.node_id} committed {new[0]} and does not lead")
        members = set(partition._leading.maximal_isr)
        current = self.controller.partition
        if current is not None and current.leader_epoch == partition.leader_epoch:
            members |= set(current.isr)
        for member in members:
            other = self.brokers[member]
            durable = other.log.durable() if other.running else list(other.image.batches)
            if durable[len(self.committed) : watermark] != new:
                raise Violation(f"{new[0]} was committed by {broker.node_id} and is not durable on {member}")
        self.committed += new

    def check_truncation(self, broker: Broker, offset: int) -> None:
        """A member of the ISR never removes a committed record."""
        current = self.controller.partition
        if current is not None and broker.node_id in current.isr and offset < len(self.committed):
            raise Violation(f"{broker.node_id} is in the ISR and truncates to {offset}: committed records")

    def check_acknowledged(self) -> None:
        for batch in self.acknowledged:
            self.summary.acknowledged += 1
            if batch.offset >= len(self.committed) or self.committed[batch.offset] != batch:
                raise Violation(f"{batch} was acknowledged and is not committed")
        self.acknowledged.clear()

    def check_converged(self) -> None:
        current = self.controller.partition
        if current is None or set(current.isr) != set(self.brokers):
            raise Violation(f"not all replicas are in sync after the faults: {current}")
        leader = self.brokers[current.leader]
        if len(self.committed) < leader.log.log_end_offset - 40:
            raise Violation(f"{len(self.committed)} of {leader.log.log_end_offset} records are committed")
        for broker in self.brokers.values():
            end = min(broker.log.log_end_offset, leader.log.log_end_offset)
            if broker.log.batches[:end] != leader.log.batches[:end] or end < len(self.committed) - 40:
                raise Violation(f"{broker.node_id} differs from the leader {leader.node_id}")

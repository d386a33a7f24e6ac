"""Simulates the replication of one partition: leaders, followers and the ISR in virtual time, with faults.

The code under test is `replication.partition` with `replication.leader`, `replication.isr_requests`,
`replication.follower` and the decisions of `controller`. Logs, network and clocks are simulated, and every decision of
the controller is committed at once. Every event draws from one seeded generator, so a seed repeats a run exactly.

Most runs sync every record. In the others (Kafka's default) a power failure loses records that were acknowledged, so
that a replica may lose its power only while all others are in sync: the protocol must then keep all of them.

After each event `replication_checker` compares the replicas. When the faults end, all of them must be in sync within a
deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.replication.follower import Action, Fetched, FetchPosition, FollowerState
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.storage.log.log_config import LogConfig
from ottla.testing.cores.event_queue import EventQueue
from ottla.testing.cores.partition_controller import TOPIC_ID, PartitionController
from ottla.testing.cores.replica_broker import Broker
from ottla.testing.cores.replica_log import Batch, Image
from ottla.testing.cores.replication_checker import ReplicationChecker, ReplicationSummary
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

_CHAOS_MS = 40_000
_HEALED_MS = 12_000
_HEARTBEAT_MS = 150
_SESSION_MS = 900
_FLUSH_MS = 400
_FETCH_TIMEOUT_MS = 700
_FETCH_WAIT_MS = 60
_BACKOFF_MS = 40
MAX_WAIT_BYTES = 1 << 20


class Response:
    """The leader's response to a fetch of one partition."""

    __slots__ = ("batches", "fetched")

    def __init__(self, fetched: Fetched, batches: tuple[Batch, ...] = ()) -> None:
        self.fetched = fetched
        self.batches = batches


class _Ack:
    """Waits for the acknowledgement of one record."""

    def __init__(self, simulation: ReplicationSimulation, batch: Batch) -> None:
        self._simulation = simulation
        self._batch = batch

    def append_done(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._simulation.checker.acknowledged.append(self._batch)


class _ParkedFetch:
    """A fetch that waits for records."""

    def __init__(self, respond: Callable[[], None]) -> None:
        self._respond = respond

    def partition_moved(self, partition: Partition) -> None:
        self._respond()

    def high_watermark_moved(self, partition: Partition) -> None:
        """Do nothing: the follower gets the high watermark with the next response."""

    def log_start_moved(self, partition: Partition) -> None:
        self._respond()


class ReplicationSimulation(EventQueue):
    """One run."""

    def __init__(self, seed: int, *, replicas: int | None = None) -> None:
        super().__init__()
        self.rng = rng = Random(seed)
        self.summary = ReplicationSummary(seed)
        count = replicas or rng.choice([2, 3, 3, 3, 5])
        self.synced = rng.random() < 0.7
        self.checker = ReplicationChecker(self.summary, synced=self.synced)
        self.config = LogConfig(min_insync_replicas=min(count, rng.choice([1, 2, 2]) if self.synced else 2))
        self.copies_early = rng.random() < 0.5
        self.lag_max_s = rng.choice([0.3, 1.0, 3.0])
        self.loss = rng.choice([0.0, 0.02, 0.1])
        self.late = rng.choice([0.0, 0.02, 0.1])
        self.slow_disk = rng.choice([0.0, 0.02, 0.1])
        self.evidence = rng.choice([0.0, 0.7])
        self.metadata_lag_ms = rng.choice([5, 100, 1000])
        self.append_interval_ms = rng.choice([25, 60, 200])
        self.chaos = True
        self.cut: set[tuple[int, int]] = set()
        ids = tuple(range(1, count + 1))
        self.brokers: dict[int, Broker] = {}
        settings = {
            "min.insync.replicas": str(self.config.min_insync_replicas),
            "broker.session.timeout.ms": str(_SESSION_MS),
            "broker.heartbeat.interval.ms": str(_HEARTBEAT_MS),
        }
        self.controller = PartitionController(ids, settings, self.committed_metadata, synced=self.synced)
        self.brokers = {node_id: Broker(self, node_id) for node_id in ids}
        self.checker.follow(self.brokers, self.controller)
        self._value = 0
        self._incarnations = 0

    # Events

    def run(self) -> ReplicationSummary:
        for broker in self.brokers.values():
            self.boot(broker)
        self.later(5, self.client)
        self.later(1500, self.fault)
        self.later(50, self.controller_timer)
        self.run_until(_CHAOS_MS)
        self.heal()
        self.run_until(_CHAOS_MS + _HEALED_MS)
        self.checker.check_converged()
        self.summary.committed = len(self.checker.committed)
        self.summary.events = self.events
        self.summary.trace = hash((self.events, self._value, tuple(self.checker.committed[-20:])))
        return self.summary

    def guarded(self, broker: Broker, life: int, call: Callable[[], None]) -> Callable[[], None]:
        """The call as an event of one life of a broker: delayed while it is paused, and checked."""

        def act() -> None:
            if broker.life != life or not broker.running:
                return
            if broker.paused_until > self.now:
                self.later(broker.paused_until - self.now, act)
                return
            call()
            self.checker.check(broker)

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
        """Register until the controller accepts it; then send heartbeats."""
        if broker.epoch >= 0:
            return
        life = broker.life

        def registered(epoch: int) -> None:
            if broker.epoch < 0 <= epoch:
                broker.epoch = epoch
                self.heartbeat(broker)
                self.check_isr(broker)
                self.flush(broker)

        def arrived() -> None:
            epoch = self.controller.register(broker.node_id, incarnation, broker.clean_epoch, self.now / 1000)
            self.message(0, broker.node_id, self.guarded(broker, life, lambda: registered(epoch)))

        self.message(broker.node_id, 0, arrived)
        self.soon(broker, 200, lambda: self.register(broker, incarnation))

    def heartbeat(self, broker: Broker) -> None:
        images, life = self.controller.images, broker.life
        request = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=images[broker.applied].offset,
            want_shut_down=broker.stopping,
        )

        def arrived() -> None:
            response = self.controller.heartbeat(request, self.now / 1000)
            if response is not None and response.should_shut_down:
                self.message(0, broker.node_id, self.guarded(broker, life, lambda: self.stop(broker)))

        self.message(broker.node_id, 0, arrived)
        self.soon(broker, _HEARTBEAT_MS, lambda: self.heartbeat(broker))

    def stop(self, broker: Broker) -> None:
        """The end of a clean stop: everything is synced."""
        log = broker.log
        if log.committable_offset < log.log_end_offset:
            self.soon(broker, 5, lambda: self.stop(broker))
            return
        broker.image = Image(tuple(log.batches), log.high_watermark)
        broker.clean_epoch = broker.epoch
        self.end_life(broker)

    def controller_timer(self) -> None:
        self.controller.expire_sessions(self.now / 1000)
        if self.rng.random() < 0.02:
            self.controller.balance()
        self.later(50, self.controller_timer)

    def flush(self, broker: Broker) -> None:
        broker.log.flush()
        if not self.synced:
            self.soon(broker, self.rng.uniform(0.5, 1.5) * _FLUSH_MS, lambda: self.flush(broker))

    def check_isr(self, broker: Broker) -> None:
        broker.partition.check_isr()
        self.soon(broker, self.lag_max_s * 500, lambda: self.check_isr(broker))

    def crash(self, broker: Broker, *, power: bool) -> None:
        """Kill a broker. If its machine loses power as well, writes that are not finished may be lost."""
        if not broker.running:
            return
        self.summary.kills += 1
        unfinished = broker.log.log_end_offset - broker.log.flushed_offset
        kept = self.rng.randint(0, unfinished) if power else unfinished
        watermark = self.rng.randint(0, broker.log.high_watermark)
        broker.image = broker.log.crash(kept, watermark)
        broker.clean_epoch = -1
        self.end_life(broker)
        if self.rng.random() < self.evidence:
            self.later(self.rng.uniform(1, 20), lambda: self.evidence_of_death(broker))

    def end_life(self, broker: Broker) -> None:
        broker.running = False
        broker.life += 1

    def evidence_of_death(self, broker: Broker) -> None:
        if not broker.running:
            self.controller.fence([broker.node_id])

    # Metadata

    def committed_metadata(self) -> None:
        for broker in self.brokers.values():
            if broker.running:
                self.soon(broker, self.rng.uniform(0.1, self.metadata_lag_ms), partial(self.apply, broker))

    def apply(self, broker: Broker) -> None:
        """Apply the next version of the metadata; nothing happens before the broker's own registration."""
        images = self.controller.images
        if broker.applied + 1 >= len(images):
            return
        broker.applied += 1
        image = images[broker.applied]
        broker.view.brokers = image.brokers
        topic = image.topics.by_id.get(TOPIC_ID)
        if 0 <= broker.epoch <= image.offset and topic is not None:
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
        broker.partition.write_started()

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
                self.checker.check_truncation(broker, step.offset)
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
                self.checker.check(broker)
        self.later(self.rng.expovariate(1 / self.append_interval_ms), self.client)

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
        match rng.randrange(9):
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
                self.controller.fence([broker.node_id])  # wrong evidence
            case 7:
                broker.stopping = True
                self.later(rng.uniform(500, 2500), lambda: self._kill(broker))
            case 8:
                for one in self.brokers.values():
                    self.crash(one, power=self.synced)
                    self.later(rng.expovariate(1 / 700), partial(self.boot, one))
        self.later(rng.expovariate(1 / 900), self.fault)

    def _kill(self, broker: Broker) -> None:
        self.crash(broker, power=self._may_lose_power() and self.rng.random() < 0.5)
        self.later(self.rng.expovariate(1 / 900), lambda: self.boot(broker))

    def _may_lose_power(self) -> bool:
        """Whether a power failure of one broker may not lose a record: always if every record is synced."""
        current = self.controller.partition
        if self.synced or current is None:
            return self.synced
        return len(current.isr) == len(self.brokers) > 2 and all(one.running for one in self.brokers.values())

    def heal(self) -> None:
        self.chaos = False
        self.cut.clear()
        self.loss = self.late = self.slow_disk = 0.0
        for broker in self.brokers.values():
            broker.paused_until = 0.0
            self.boot(broker)

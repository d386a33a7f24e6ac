"""One run of the simulation: a seed in, a verdict out.

Two phases. First everybody works while faults happen; then the faults end, producers stop, and everything must come
to rest: groups stable with every partition owned, no transaction open, every record processed and copied once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import structlog

from ottla.base.ids import TopicPartition
from ottla.testing.sim.actors.actor import Actor
from ottla.testing.sim.actors.admin import Admin
from ottla.testing.sim.actors.classic import ClassicMember
from ottla.testing.sim.actors.committer import Committer
from ottla.testing.sim.actors.consumer import ConsumerMember
from ottla.testing.sim.actors.copier import OUT_TOPIC, ClassicCopier, ConsumerCopier
from ottla.testing.sim.actors.producers import Source, TxnProducer
from ottla.testing.sim.actors.readers import Reader
from ottla.testing.sim.actors.two_phase import Preparer
from ottla.testing.sim.cast import Cast
from ottla.testing.sim.faults import Faults
from ottla.testing.sim.kernel import Violation
from ottla.testing.sim.offsets_ledger import Slot
from ottla.testing.sim.replay_check import compare
from ottla.testing.sim.txn_states import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY
from ottla.testing.sim.world import World

CHAOS_MS: Final = 25_000
CALM_MS_MAX: Final = 120_000
_TENDING_MS: Final = 100
_COMPARING_MS: Final = 1700
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "3000",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "600",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.two.phase.commit.enable": "true",
}


class Result(NamedTuple):
    """What came of a run."""

    seed: int
    violation: Violation | None
    digest: str
    events: int
    virtual_ms: int
    counts: Counter[str]
    last_lines: list[str]


class Run:
    """One seed. `step` until it says no, or `finish`."""

    name = "run"
    alive = True
    paused_until_us = 0

    def __init__(
        self, seed: int, settings: Mapping[str, str] | None = None, chaos_ms: int = CHAOS_MS
    ) -> None:
        self.world = World(seed, {**SETTINGS, **(settings or {})})
        self.kernel = self.world.kernel
        self.cast = Cast(self.world)
        self._rng = self.kernel.stream("scenario")
        self.faults = Faults(self.world, self.cast)
        self._chaos_ms = chaos_ms
        self._calm_until_ms = 0
        self._done = False
        self._lost: list[Actor] = []

    def finish(self) -> Result:
        """Run to the end."""
        before = structlog.get_config()
        structlog.configure(processors=[self._log], cache_logger_on_first_use=False)
        try:
            self.world.node.start()
            self._set_stage()
            while not self._done and self.kernel.violation is None and self.kernel.step():
                if self.kernel.actor is self.world.node.loop:
                    self.world.look()
                if self.world.node.disk.dead:
                    self.faults.broker_lost_power()
        finally:
            structlog.configure(**before)
            self.world.node.strike()
            self.cast.strike()
        kernel = self.kernel
        return Result(
            kernel.seed,
            kernel.violation,
            kernel.digest,
            kernel.events,
            kernel.now_ms,
            kernel.counts,
            list(kernel.lines),
        )

    def _log(self, logger: object, method: str, event: Mapping[str, object]) -> str:
        self.kernel.note("log", f"{method} {dict(event)}")
        if method == "exception":
            self.kernel.violated("no request fails unexpectedly", f"{dict(event)}")
        raise structlog.DropEvent

    # The stage

    def _set_stage(self) -> None:
        world, rng = self.world, self._rng
        world.topics = {"in": rng.randrange(1, 5), "txn": rng.randrange(2, 4)}
        world.topics[OUT_TOPIC] = world.topics["in"]
        self.kernel.note("run", f"topics {world.topics}, faults {self.faults.chosen}")
        if rng.random() < 0.3:
            world.transaction_version = rng.choice((0, 1))
        admin = Admin(world, "admin")
        admin.when_ready = self._curtain
        admin.start()

    def _curtain(self) -> None:
        """Topics are there: everybody enters."""
        world, rng = self.world, self._rng
        world.groups.topic_names = {topic_id: name for name, topic_id in world.topic_ids.items()}
        everybody: list[Actor] = [Source(world, "source")]
        everybody += [TxnProducer(world, f"txn-{n}") for n in range(rng.randrange(1, 4))]
        everybody += [
            ClassicMember(world, f"old-{n}", group="classic", topics=("in", "txn"))
            for n in range(rng.randrange(0, 4))
        ]
        everybody += [
            ConsumerMember(world, f"new-{n}", group="consumer", topics=("in", "txn"))
            for n in range(rng.randrange(0, 4))
        ]
        if rng.random() < 0.4:
            # A group on its way from one protocol to the other, and back as members come and go.
            kinds = (ClassicMember, ConsumerMember)
            everybody += [
                rng.choice(kinds)(world, f"mix-{n}", group="mixed", topics=("in",))
                for n in range(rng.randrange(2, 4))
            ]
        if rng.random() < 0.5:
            everybody.append(Committer(world, "simple"))
        copier = rng.choice((ClassicCopier, ConsumerCopier))
        everybody += [
            copier(world, f"copy-{n}", group="copiers", topics=("in",)) for n in range(rng.randrange(0, 3))
        ]
        if rng.random() < 0.5:
            everybody.append(Preparer(world, "two-phase"))
        everybody.append(Reader(world, "committed", committed=True))
        everybody.append(Reader(world, "uncommitted", committed=False))
        for actor in everybody:
            self.cast.enter(actor)
        self.faults.start()
        self.kernel.after_ms(_TENDING_MS, self, self._tend)
        self.kernel.after_ms(_COMPARING_MS, self, self._compare)
        self.kernel.after_ms(self._chaos_ms, self, self._calm)

    def _tend(self) -> None:
        self.cast.tend()
        if not self._calm_until_ms:
            self.kernel.after_ms(_TENDING_MS, self, self._tend)

    def _compare(self) -> None:
        node = self.world.node
        if node.node is not None and node.ready:
            compare(self.kernel, node.node)
        self.kernel.after_ms(_COMPARING_MS, self, self._compare)

    # The end

    def _calm(self) -> None:
        self.kernel.note("run", "the faults are over")
        self.faults.stop()
        self.world.closing = True
        self._lose_producers()
        self.cast.everybody_lives()
        self._calm_until_ms = self.kernel.now_ms + CALM_MS_MAX
        self._await_rest()

    def _lose_producers(self) -> None:
        """Some never come back: only time can end what they have open (if the clock that tells it is right)."""
        if "clock jump" in self.faults.chosen:
            return
        for actor in self.cast.actors.values():
            if isinstance(actor, TxnProducer) and not actor.process.done and self._rng.random() < 0.5:
                self.kernel.count("producers lost")
                actor.kill()
                self._lost.append(actor)

    def _await_rest(self) -> None:
        self.cast.everybody_lives()
        restless = self._restless()
        if restless is None:
            self._judge()
            self._done = True
        elif self.kernel.now_ms > self._calm_until_ms:
            self.kernel.violated("G5 T5 after the faults everything comes to rest", restless)
        else:
            self.kernel.after_ms(500, self, self._await_rest)

    def _restless(self) -> str | None:
        """What has not come to rest yet."""
        world = self.world
        for actor in self.cast.actors.values():
            writes = isinstance(actor, Source | TxnProducer | Committer) and actor not in self._lost
            if writes and not actor.process.done:
                return f"{actor.name} still writes"
        undecided = world.follower.undecided()
        undecided = {place: who for place, who in undecided.items() if not self._prepared(place, who)}
        if undecided:
            return f"open transactions: {undecided}"
        for transactional_id, state in world.txn_states.last.items():
            open_states = state.transaction_status not in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
            if open_states and transactional_id != "two-phase":
                return f"{transactional_id} is in state {state.transaction_status}"
        return self._unread() or self._unowned()

    def _prepared(self, place: TopicPartition, producers: list[int]) -> bool:
        """Whether only the prepared transaction is open, which nobody may end but who asks for it."""
        state = self.world.txn_states.last.get("two-phase")
        return state is not None and producers == [state.producer_id]

    def _unread(self) -> str | None:
        """A group or reader that has not got to the end yet."""
        world = self.world
        ends = {
            partition.log.topic_partition: partition.log.last_stable_offset
            for partition in world.node.partitions
            if partition.topic in world.topics
        }
        if not ends:
            return "the broker is not up"
        for group, topics in self._groups().items():
            for place, end in ends.items():
                if place.topic in topics and world.offsets.committed(Slot(group, place)) < end and end:
                    return f"{group} has committed {world.offsets.committed(Slot(group, place))} of {end} in {place}"
        for actor in self.cast.actors.values():
            if isinstance(actor, Reader):
                behind = {place: end for place, end in ends.items() if actor.positions.get(place, 0) < end}
                if behind and actor.committed:
                    return f"{actor.name} has not read {behind}"
        return None

    def _groups(self) -> dict[str, tuple[str, ...]]:
        members = [a for a in self.cast.actors.values() if isinstance(a, ClassicMember | ConsumerMember)]
        return {member.group: member.topics for member in members}

    def _unowned(self) -> str | None:
        for group, topics in self._groups().items():
            for topic in topics:
                for place in self.world.places(topic):
                    owners = self.world.claims.owners(group, place)
                    if len(owners) != 1:
                        return f"{place} is owned by {owners} in {group}"
        return None

    def _judge(self) -> None:
        """Everything is at rest: is everything where it belongs?"""
        world, check = self.world, self.kernel.check
        lost = world.txns.lost()
        check(not lost, "T4 what was committed can be read", f"{lost[:5]}")
        if "copiers" not in self._groups():
            return
        for place in world.places("in"):
            came = [value for _, value in world.txns.visible(place, 0, 2**62, committed=True)]
            target = TopicPartition(OUT_TOPIC, place.partition)
            went = [
                value.partition("=")[2].replace(":", "/")
                for _, value in world.txns.visible(target, 0, 2**62, committed=True)
            ]
            check(
                came == went, "exactly once: the copy is the original", f"{place}: {_difference(came, went)}"
            )


def run_seed(seed: int, chaos_ms: int = CHAOS_MS) -> Result:
    """Run one seed to its end."""
    return Run(seed, chaos_ms=chaos_ms).finish()


def _difference(came: list[str], went: list[str]) -> str:
    twice = [value for value, count in Counter(went).items() if count > 1]
    missing = [value for value in came if value not in set(went)]
    return f"{len(came)} came, {len(went)} went, twice {twice[:5]}, missing {missing[:5]}"

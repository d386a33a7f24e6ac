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
from ottla.testing.sim.checkers.offsets import Slot
from ottla.testing.sim.checkers.replay import compare
from ottla.testing.sim.checkers.transaction_states import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY
from ottla.testing.sim.clients.admin import Admin
from ottla.testing.sim.clients.classic_member import ClassicMember
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.clients.consumer_member import ConsumerMember
from ottla.testing.sim.clients.copier import OUT_TOPIC, ClassicCopier, ConsumerCopier
from ottla.testing.sim.clients.offset_client import OffsetClient
from ottla.testing.sim.clients.producers import Source, TxnProducer
from ottla.testing.sim.clients.readers import Reader
from ottla.testing.sim.clients.two_phase import Preparer
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.faults import Faults
from ottla.testing.sim.kernel.events import Violation

CHAOS_MS: Final = 25_000
CONVERGENCE_MS_MAX: Final = 120_000
_RESTART_INTERVAL_MS: Final = 100
_COMPARE_INTERVAL_MS: Final = 1700
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
        self.cluster = Cluster(seed, {**SETTINGS, **(settings or {})})
        self.kernel = self.cluster.kernel
        self.clients = ClientSet(self.cluster)
        self._rng = self.kernel.stream("scenario")
        self.faults = Faults(self.cluster, self.clients)
        self._chaos_ms = chaos_ms
        self._converge_until_ms = 0
        self._done = False
        self._lost: list[Client] = []

    def finish(self) -> Result:
        """Run to the end."""
        before = structlog.get_config()
        structlog.configure(processors=[self._log], cache_logger_on_first_use=False)
        try:
            self.cluster.node.start()
            self._create_topics()
            while not self._done and self.kernel.violation is None and self.kernel.step():
                if self.kernel.client is self.cluster.node.loop:
                    self.cluster.check()
                if self.cluster.node.disk.dead:
                    self.faults.broker_lost_power()
        finally:
            structlog.configure(**before)
            self.cluster.node.shut_down()
            self.clients.shut_down()
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

    def _create_topics(self) -> None:
        cluster, rng = self.cluster, self._rng
        cluster.topics = {"in": rng.randrange(1, 5), "txn": rng.randrange(2, 4)}
        cluster.topics[OUT_TOPIC] = cluster.topics["in"]
        self.kernel.note("run", f"topics {cluster.topics}, faults {self.faults.chosen}")
        if rng.random() < 0.3:
            cluster.transaction_version = rng.choice((0, 1))
        admin = Admin(cluster, "admin")
        admin.when_ready = self._start_clients
        admin.start()

    def _start_clients(self) -> None:
        """Topics are there: everybody enters."""
        cluster, rng = self.cluster, self._rng
        cluster.groups.topic_names = {topic_id: name for name, topic_id in cluster.topic_ids.items()}
        clients: list[Client] = [Source(cluster, "source")]
        clients += [TxnProducer(cluster, f"txn-{n}") for n in range(rng.randrange(1, 4))]
        clients += [
            ClassicMember(cluster, f"old-{n}", group="classic", topics=("in", "txn"))
            for n in range(rng.randrange(0, 4))
        ]
        clients += [
            ConsumerMember(cluster, f"new-{n}", group="consumer", topics=("in", "txn"))
            for n in range(rng.randrange(0, 4))
        ]
        if rng.random() < 0.4:
            # A group on its way from one protocol to the other, and back as members come and go.
            kinds = (ClassicMember, ConsumerMember)
            clients += [
                rng.choice(kinds)(cluster, f"mix-{n}", group="mixed", topics=("in",))
                for n in range(rng.randrange(2, 4))
            ]
        if rng.random() < 0.5:
            clients.append(OffsetClient(cluster, "simple"))
        copier = rng.choice((ClassicCopier, ConsumerCopier))
        clients += [
            copier(cluster, f"copy-{n}", group="copiers", topics=("in",)) for n in range(rng.randrange(0, 3))
        ]
        if rng.random() < 0.5:
            clients.append(Preparer(cluster, "two-phase"))
        clients.append(Reader(cluster, "committed", committed=True))
        clients.append(Reader(cluster, "uncommitted", committed=False))
        for client in clients:
            self.clients.start(client)
        self.faults.start()
        self.kernel.after_ms(_RESTART_INTERVAL_MS, self, self._restart_finished)
        self.kernel.after_ms(_COMPARE_INTERVAL_MS, self, self._compare)
        self.kernel.after_ms(self._chaos_ms, self, self._end_faults)

    def _restart_finished(self) -> None:
        self.clients.restart_finished()
        if not self._converge_until_ms:
            self.kernel.after_ms(_RESTART_INTERVAL_MS, self, self._restart_finished)

    def _compare(self) -> None:
        node = self.cluster.node
        if node.node is not None and node.ready:
            compare(self.kernel, node.node)
        self.kernel.after_ms(_COMPARE_INTERVAL_MS, self, self._compare)

    # The end

    def _end_faults(self) -> None:
        self.kernel.note("run", "the faults are over")
        self.faults.stop()
        self.cluster.ending = True
        self._lose_producers()
        self.clients.end_faults()
        self._converge_until_ms = self.kernel.now_ms + CONVERGENCE_MS_MAX
        self._await_convergence()

    def _lose_producers(self) -> None:
        """Some never come back: only time can end what they have open (if the clock that tells it is right)."""
        if "clock jump" in self.faults.chosen:
            return
        for client in self.clients.clients.values():
            if isinstance(client, TxnProducer) and not client.process.done and self._rng.random() < 0.5:
                self.kernel.count("producers lost")
                client.kill()
                self._lost.append(client)

    def _await_convergence(self) -> None:
        self.clients.end_faults()
        reason = self._not_converged()
        if reason is None:
            self._raise_for()
            self._done = True
        elif self.kernel.now_ms > self._converge_until_ms:
            self.kernel.violated("G5 T5 after the faults everything comes to rest", reason)
        else:
            self.kernel.after_ms(500, self, self._await_convergence)

    def _not_converged(self) -> str | None:
        """What has not come to rest yet."""
        cluster = self.cluster
        for client in self.clients.clients.values():
            writes = isinstance(client, Source | TxnProducer | OffsetClient) and client not in self._lost
            if writes and not client.process.done:
                return f"{client.name} still writes"
        undecided = cluster.logs.undecided()
        undecided = {
            tp: client_id for tp, client_id in undecided.items() if not self._prepared(tp, client_id)
        }
        if undecided:
            return f"open transactions: {undecided}"
        for transactional_id, state in cluster.txn_states.last.items():
            open_states = state.transaction_status not in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
            if open_states and transactional_id != "two-phase":
                return f"{transactional_id} is in state {state.transaction_status}"
        return self._unread() or self._unowned()

    def _prepared(self, tp: TopicPartition, producers: list[int]) -> bool:
        """Whether only the prepared transaction is open, which nobody may end but who asks for it."""
        state = self.cluster.txn_states.last.get("two-phase")
        return state is not None and producers == [state.producer_id]

    def _unread(self) -> str | None:
        """A group or reader that has not got to the end yet."""
        cluster = self.cluster
        ends = {
            partition.log.topic_partition: partition.log.last_stable_offset
            for partition in cluster.node.partitions
            if partition.topic in cluster.topics
        }
        if not ends:
            return "the broker is not up"
        for group, topics in self._groups().items():
            for tp, end in ends.items():
                if tp.topic in topics and cluster.offsets.committed(Slot(group, tp)) < end and end:
                    return (
                        f"{group} has committed {cluster.offsets.committed(Slot(group, tp))} of {end} in {tp}"
                    )
        for client in self.clients.clients.values():
            if isinstance(client, Reader):
                behind = {tp: end for tp, end in ends.items() if client.positions.get(tp, 0) < end}
                if behind and client.committed:
                    return f"{client.name} has not read {behind}"
        return None

    def _groups(self) -> dict[str, tuple[str, ...]]:
        members = [a for a in self.clients.clients.values() if isinstance(a, ClassicMember | ConsumerMember)]
        return {member.group: member.topics for member in members}

    def _unowned(self) -> str | None:
        for group, topics in self._groups().items():
            for topic in topics:
                for tp in self.cluster.partitions(topic):
                    owners = self.cluster.ownership.owners(group, tp)
                    if len(owners) != 1:
                        return f"{tp} is owned by {owners} in {group}"
        return None

    def _raise_for(self) -> None:
        """Everything is at rest: is everything where it belongs?"""
        cluster, check = self.cluster, self.kernel.check
        lost = cluster.txns.lost()
        check(not lost, "T4 what was committed can be read", f"{lost[:5]}")
        if "copiers" not in self._groups():
            return
        for tp in cluster.partitions("in"):
            came = [value for _, value in cluster.txns.visible(tp, 0, 2**62, committed=True)]
            target = TopicPartition(OUT_TOPIC, tp.partition)
            went = [
                value.partition("=")[2].replace(":", "/")
                for _, value in cluster.txns.visible(target, 0, 2**62, committed=True)
            ]
            check(came == went, "exactly once: the copy is the original", f"{tp}: {_difference(came, went)}")


def run_seed(seed: int, chaos_ms: int = CHAOS_MS) -> Result:
    """Run one seed to its end."""
    return Run(seed, chaos_ms=chaos_ms).finish()


def _difference(came: list[str], went: list[str]) -> str:
    twice = [value for value, count in Counter(went).items() if count > 1]
    missing = [value for value in came if value not in set(went)]
    return f"{len(came)} came, {len(went)} went, twice {twice[:5]}, missing {missing[:5]}"

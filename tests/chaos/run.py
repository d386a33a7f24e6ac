"""One run: a cluster under idempotent load, a group and transactional copies, and one fault after the other.

Between two faults every producer must make progress, so that no fault ends the run silently. A majority of the brokers
is always healthy, except at a power failure, which ends all of them at once.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path

from ottla.base.ids import TopicPartition
from ottla.testing import Cluster
from ottla.testing.history import Anomaly, History, Kind
from ottla.testing.proxy import CLIENT, Fault
from tests.chaos.power_failure import PowerFailures
from tests.chaos.summary import Summary, pause_around
from tests.fault.load import AiokafkaLoad, ConfluentLoad, Load
from tests.support.clients import create_topic, fresh, read_all
from tests.support.members.copier import EXIT_FENCED
from tests.support.replicated import GroupReader
from tests.support.transactional_copy import CommittedReader, Copying, Job, confluent_copier
from tests.support.waiting import wait_until

PARTITIONS = 6
RATE = 200
PROGRESS_MAX = 150
FAULT_S_MAX = 6.0
PROGRESS_TIMEOUT_S = 120.0
COPIER_STALL_S = 15.0
"""A copier that has copied nothing for this long is started again. librdkafka 2.16 can wait for ever for a group's
coordinator after all brokers have restarted."""
PAUSE_WINDOW_S = 20.0
COPY_SIZE = 100
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


@dataclass(frozen=True)
class Plan:
    """How many faults of each kind."""

    brokers: int
    kills: int
    power: int
    pauses: int
    network: int
    seed: int


class Chaos:
    """A cluster, its clients and its faults."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.dice = random.Random(plan.seed)
        self.summary = Summary(plan.brokers, plan.seed)
        self.folder = folder
        data = folder / "data"
        data.mkdir()
        self.failures = PowerFailures(folder, data) if plan.power else None
        if self.failures is not None:
            os.environ.update(self.failures.environment)
        self.cluster = Cluster(plan.brokers, config=SETTINGS, data=data)
        self.moments: list[tuple[str, float]] = []
        self._copied_before, self._copied_at = 0, time.monotonic()

    def run(self) -> Summary:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        began = time.monotonic()
        with self.cluster as cluster:
            self.topic = create_topic(cluster.bootstrap, fresh("chaos"), PARTITIONS, replicas=-1)
            self.copy = create_topic(cluster.bootstrap, fresh("copy"), PARTITIONS, replicas=-1)
            self._start_clients()
            try:
                for number, fault in enumerate(self._faults()):
                    self._wait_for_progress(f"before fault {number + 1}")
                    fault()
                self._wait_for_progress("after the last fault")
                self._heal()
                self._finish()
            finally:
                self.copying.kill()
                self.copied.close()
        self.summary.seconds = time.monotonic() - began
        return self.summary

    # --- clients

    def _start_clients(self) -> None:
        bootstrap = self.cluster.bootstrap
        self.loads: list[Load] = [
            kind(kind.__name__, bootstrap, self.topic, PARTITIONS, rate=RATE)
            for kind in (ConfluentLoad, AiokafkaLoad)
        ]
        group = fresh("readers")
        self.readers = [GroupReader(bootstrap, self.topic, group, f"member {n}") for n in range(2)]
        job = Job(bootstrap, self.topic, self.copy, COPY_SIZE)
        self.copying = Copying(confluent_copier("assign")(job), self.folder, {EXIT_FENCED})
        self.copied = CommittedReader(bootstrap, self.copy, PARTITIONS)
        for load in self.loads:
            load.start()

    def _wait_for_progress(self, when: str, records: int | None = None) -> None:
        """Wait until each producer has got some more acknowledgements."""
        count = self.dice.randint(1, PROGRESS_MAX) if records is None else records
        goals = {load: load.acknowledged + count for load in self.loads}

        def reached() -> bool:
            self._look_at_copier()
            return all(load.acknowledged >= goal or load.failure for load, goal in goals.items())

        wait_until(reached, f"producers to go on {when} (seed {self.plan.seed})", PROGRESS_TIMEOUT_S)
        failed = [load.failure for load in self.loads if load.failure is not None]
        if failed:
            raise failed[0]

    def _look_at_copier(self) -> None:
        self.copying.look()
        now, count = time.monotonic(), self.copied.count
        if count != self._copied_before:
            self._copied_before, self._copied_at = count, now
        elif now - self._copied_at > COPIER_STALL_S:
            self.summary.faults["restart of the copier"] += 1
            self._copied_at = now
            self.copying.kill()
            self.copying.start()

    # --- faults

    def _faults(self) -> list[Callable[[], None]]:
        plan = self.plan
        faults: list[Callable[[], None]] = (
            [self._kill] * plan.kills
            + [self._pause] * plan.pauses
            + [self._network] * plan.network
            + [self._power] * plan.power
        )
        self.dice.shuffle(faults)
        return faults

    def _note(self, name: str) -> None:
        self.summary.faults[name] += 1
        self.moments.append((name, time.monotonic()))
        print(f"  {time.strftime('%H:%M:%S')} {name}", flush=True)

    def _kill(self) -> None:
        node_id, name = self._victim()
        self._note(f"kill of {name}")
        self.cluster.kill(node_id)
        self._wait_for_progress(f"after {name} was killed")
        self.cluster.restart(node_id)

    def _victim(self) -> tuple[int, str]:
        which = self.dice.choice(["a leader", "the controller", "a broker"])
        if which == "the controller":
            found = self.cluster.controller()
            if found is not None:
                return found, which
        if which == "a leader":
            found = self.cluster.leader(self.topic, self.dice.randrange(PARTITIONS))
            if found >= 0:
                return found, which
        return self.dice.choice(list(self.cluster.brokers)), "a broker"

    def _pause(self) -> None:
        node_id, _ = self._victim()
        self._note("pause")
        self.cluster.pause(node_id)
        self._last()
        self.cluster.resume(node_id)

    def _last(self) -> None:
        """Let a fault last for a while. A client may wait much longer for a response that was cut off."""
        threading.Event().wait(self.dice.uniform(0.1, FAULT_S_MAX))

    def _network(self) -> None:
        node_id, _ = self._victim()
        others = [each for each in self.cluster.brokers if each != node_id]
        other = self.dice.choice(others)
        network = self.cluster.network
        which = self.dice.choice(["disconnect", "one-way cut", "link cut", "delay", "trickle", "reset"])
        self._note(which)
        if which == "disconnect":
            self.cluster.disconnect(node_id)
        elif which == "one-way cut":
            network.set_faults({(node_id, each): Fault(cut=True) for each in [*others, CLIENT]})
        elif which == "link cut":
            network.set_faults({(node_id, other): Fault(cut=True), (other, node_id): Fault(cut=True)})
        elif which == "delay":
            network.set_faults({(node_id, each): Fault(delay_s=0.1) for each in others})
        elif which == "trickle":
            network.set_fault(node_id, other, Fault(rate=2_000))
        else:
            for each in [*others, CLIENT]:
                network.reset(node_id, each)
        self._last()
        network.clear_faults()

    def _power(self) -> None:
        assert self.failures is not None
        self._note("power failure")
        self.cluster.kill_all()
        self.failures.apply(self.dice)
        self.cluster.restart_all()
        self._wait_for_progress("after a power failure")

    def _heal(self) -> None:
        self.cluster.network.clear_faults()
        self.cluster.restart_all()
        for partition in range(PARTITIONS):
            self.cluster.wait_until(
                lambda partition=partition: len(self.cluster.in_sync(self.topic, partition)) == 3,
                "all replicas to be in sync",
                timeout_s=60,
            )

    # --- the end

    def _finish(self) -> None:
        history = History()
        times: list[dict[int, list[float]]] = []
        for load in self.loads:
            history.extend(load.stop())
            times.append(load.times)
        original: dict[int, list[bytes]] = {}
        for partition in range(PARTITIONS):
            messages = read_all(self.cluster.bootstrap, self.topic, partition)
            original[partition] = [message.value() for message in messages]
            for message in messages:
                tp = TopicPartition(self.topic, partition)
                history.read("all", tp, message.offset(), message.value())
        total = sum(map(len, original.values()))
        self._wait_until_read(total)
        for reader in self.readers:
            self.summary.read += reader.count
            history.extend(reader.close())
        self.summary.acknowledged = history.acknowledged_count
        self.summary.anomalies = history.anomalies() + self._copy_anomalies(original, total)
        self._measure(times)

    def _wait_until_read(self, total: int) -> None:
        def all_read() -> bool:
            return len(set().union(*(reader.seen for reader in self.readers))) >= total

        wait_until(all_read, f"the group to read {total} records", PROGRESS_TIMEOUT_S)

    def _copy_anomalies(self, original: dict[int, list[bytes]], total: int) -> list[Anomaly]:
        """What is wrong with the copy; it is also wrong if it does not become complete."""

        def copied() -> bool:
            self._look_at_copier()
            return self.copied.count >= total

        found = []
        try:
            wait_until(copied, f"{total} records to be copied in transactions", PROGRESS_TIMEOUT_S)
        except AssertionError as error:
            detail = (
                f"{error}; copied: {self.copied.count}; copier: {self.copying.errors.read_text()[-1000:]}"
            )
            found.append(Anomaly(Kind.LOST_WRITE, TopicPartition(self.copy, 0), detail))
        self.summary.copied = self.copied.count
        for partition, values in original.items():
            if self.copied.values[partition] != values[: len(self.copied.values[partition])]:
                detail = "the copy differs from the original"
                found.append(Anomaly(Kind.INCONSISTENT_OFFSET, TopicPartition(self.copy, partition), detail))
        return found

    def _measure(self, times: list[dict[int, list[float]]]) -> None:
        """Pauses as the first producer saw them, the longest of all partitions, up to the next fault."""
        ends = [moment for _, moment in self.moments[1:]] + [inf]
        for (name, moment), end in zip(self.moments, ends, strict=True):
            window_s = min(PAUSE_WINDOW_S, end - moment)
            found = [pause_around(acks, moment, window_s) for acks in times[0].values()]
            known = [pause for pause in found if pause is not None]
            if known:
                self.summary.pauses.setdefault(name, []).append(max(known))

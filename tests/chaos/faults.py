"""Faults of a chaos run: kills, pauses, network faults, full disks, and power failures of the whole cluster.

Between two faults every producer must make progress, so that no fault ends the run silently. A majority of the brokers
is always healthy, except at a power failure, which ends all of them at once. Half of the kills wait until all replicas
are in sync: then producers must go on while the broker is down. The others may hit a cluster that is still catching up,
in which a partition may be unavailable until the broker returns.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ottla.testing import Cluster
from ottla.testing.proxy import CLIENT, Fault
from tests.chaos.clients import PARTITIONS, Clients
from tests.chaos.power_failure import PowerFailures
from tests.chaos.small_disk import SmallDisk
from tests.chaos.summary import Summary

PROGRESS_MAX = 150
FAULT_S_MAX = 6.0
DOWN_S_MAX = 3.0
IN_SYNC_TIMEOUT_S = 120.0
START_ATTEMPTS = 4


@dataclass(frozen=True)
class Plan:
    """How many faults of each kind."""

    brokers: int
    kills: int = 0
    power: int = 0
    pauses: int = 0
    network: int = 0
    full: int = 0
    seed: int = 1
    java: bool = False


class Faults:
    """Injects the faults of a plan into a cluster, in random order."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        clients: Clients,
        summary: Summary,
        power: PowerFailures | None,
        disks: dict[int, SmallDisk],
    ) -> None:
        self._plan = plan
        self._dice = random.Random(plan.seed)
        self._cluster = cluster
        self._clients = clients
        self._summary = summary
        self._power_failures = power
        self._disks = disks
        self.moments: list[tuple[str, float]] = []
        """The name and the time of each fault."""

    def run(self) -> None:
        """Inject all faults, and end them."""
        plan = self._plan
        faults: list[Callable[[], None]] = (
            [self._kill] * plan.kills
            + [self._pause] * plan.pauses
            + [self._network] * plan.network
            + [self._power] * plan.power
            + [self._fill] * plan.full
        )
        self._dice.shuffle(faults)
        for number, fault in enumerate(faults):
            self._progress(f"before fault {number + 1}")
            fault()
        self._progress("after the last fault")
        self._cluster.network.clear_faults()
        self._wait_in_sync()

    def run_for(self, seconds: float, kills_until_s: float) -> None:
        """Inject faults of one broker until the time is over; kills only during the first part of it."""
        began = time.monotonic()
        number = 0
        while (elapsed := time.monotonic() - began) < seconds:
            number += 1
            self._progress(f"before fault {number}")
            kinds = [self._pause, self._network, self._network]
            if elapsed < kills_until_s:
                kinds.append(self._kill)
            self._dice.choice(kinds)()
            self._last(FAULT_S_MAX)
        self._progress("after the last fault")
        self._cluster.network.clear_faults()
        self._wait_in_sync()

    def _progress(self, when: str) -> None:
        self._clients.wait_for_progress(
            f"{when} (seed {self._plan.seed})", self._dice.randint(1, PROGRESS_MAX)
        )

    def _wait_in_sync(self) -> None:
        """Wait until all replicas of the topics are in sync."""
        cluster = self._cluster
        full = min(3, self._plan.brokers)
        for topic in (self._clients.topic, self._clients.copy):
            for partition in range(PARTITIONS):
                cluster.wait_until(
                    lambda topic=topic, partition=partition: len(cluster.in_sync(topic, partition)) == full,
                    f"all replicas of {topic}-{partition} to be in sync",
                    timeout_s=IN_SYNC_TIMEOUT_S,
                )

    def _note(self, name: str) -> None:
        self._summary.faults[name] += 1
        self.moments.append((name, time.monotonic()))
        print(f"  {time.strftime('%H:%M:%S')} {name}", flush=True)

    def _victim(self) -> tuple[int, str]:
        which = self._dice.choice(["a leader", "the controller", "a broker"])
        if which == "the controller":
            found = self._cluster.controller()
            if found is not None:
                return found, which
        if which == "a leader":
            found = self._cluster.leader(self._clients.topic, self._dice.randrange(PARTITIONS))
            if found >= 0:
                return found, which
        return self._dice.choice(list(self._cluster.brokers)), "a broker"

    def _restart(self, node_ids: list[int]) -> None:
        """Start brokers again. On a busy machine a start may time out: it is repeated, like after another kill."""
        for attempt in range(START_ATTEMPTS):
            try:
                self._cluster.restart_all(node_ids)
            except TimeoutError:
                if attempt + 1 == START_ATTEMPTS:
                    raise
                self._summary.faults["slow start"] += 1
            else:
                return

    # One broker

    def _kill(self) -> None:
        in_sync = self._dice.random() < 0.5
        if in_sync:
            self._wait_in_sync()
        node_id, name = self._victim()
        self._note(f"kill of {name}")
        self._cluster.kill(node_id)
        if in_sync:
            self._progress(f"after {name} was killed")
        else:
            self._last(DOWN_S_MAX)
        self._restart([node_id])

    def _pause(self) -> None:
        node_id, _ = self._victim()
        self._note("pause")
        self._cluster.pause(node_id)
        self._last(FAULT_S_MAX)
        self._cluster.resume(node_id)

    def _last(self, seconds_max: float) -> None:
        """Let a fault last for a while. A client may wait much longer for a response that was cut off."""
        threading.Event().wait(self._dice.uniform(0.1, seconds_max))

    def _fill(self) -> None:
        """Fill the disk of a broker while the others serve clients; empty it, and restart the broker."""
        self._wait_in_sync()
        node_id, _ = self._victim()
        self._note("full disk")
        self._disks[node_id].fill()
        self._progress("while a disk is full")
        self._last(FAULT_S_MAX)
        self._cluster.kill(node_id)
        self._disks[node_id].empty()
        self._restart([node_id])

    # Links

    def _network(self) -> None:
        node_id, _ = self._victim()
        others = [each for each in self._cluster.brokers if each != node_id]
        other = self._dice.choice(others)
        network = self._cluster.network
        which = self._dice.choice(["disconnect", "one-way cut", "link cut", "delay", "trickle", "reset"])
        self._note(which)
        if which == "disconnect":
            self._cluster.disconnect(node_id)
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
        self._last(FAULT_S_MAX)
        network.clear_faults()

    # All brokers

    def _power(self) -> None:
        assert self._power_failures is not None
        self._note("power failure")
        self._cluster.kill_all()
        self._power_failures.apply(self._dice)
        self._restart(list(self._cluster.brokers))
        self._progress("after a power failure")

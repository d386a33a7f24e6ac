"""One run of the simulation: a seed is simulated to its end, and the result describes what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.kernel.events import Kernel, Violation
from ottla.testing.sim.kernel.network import Network
from ottla.testing.sim.kernel.pace import EVEN, Pace
from ottla.testing.sim.scenario import Scenario
from ottla.testing.sim.topology import choose_nodes, cluster_settings, topic_settings

FAULT_MS: Final = 25_000
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
    """What happened in a run."""

    seed: int
    violation: Violation | None
    digest: str
    events: int
    virtual_ms: int
    counts: Counter[str]
    last_lines: list[str]


class Simulation:
    """Hosts, network and virtual time of one run, with the clusters that are simulated in it."""

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel)
        self.clusters: list[Cluster] = []

    def add_cluster(
        self,
        name: str = "",
        settings: Mapping[str, str] | None = None,
        brokers: int | None = 1,
        pace: Pace | None = EVEN,
    ) -> Cluster:
        """Add a cluster with that many brokers, which work at that pace; None: the seed chooses.

        Several clusters have different names.
        """
        rng = self.kernel.stream(f"{name}: topology")
        specs = choose_nodes(rng, brokers)
        shared = {**SETTINGS, **cluster_settings(rng, specs), **(settings or {})}
        cluster = Cluster(self.network, name, shared, specs)
        cluster.topic_settings = topic_settings(rng, specs)
        cluster.set_paces(pace)
        self.clusters.append(cluster)
        return cluster

    def run(self, until: Callable[[], bool]) -> None:
        """Run events until a condition holds, an invariant is violated, or no event is left."""
        before = structlog.get_config()
        structlog.configure(processors=[self._log], cache_logger_on_first_use=False)
        kernel = self.kernel
        try:
            while kernel.violation is None and not until() and kernel.step():
                pass
        finally:
            structlog.configure(**before)

    def run_ms(self, milliseconds: int) -> None:
        """Run for that long, in virtual time."""
        end_us = self.kernel.now_us + milliseconds * 1000
        self.kernel.schedule(end_us, self.kernel.root, lambda: None)
        self.run(lambda: self.kernel.now_us >= end_us)

    def shut_down(self) -> None:
        """End of the run: nothing has an effect any more."""
        for cluster in self.clusters:
            cluster.shut_down()

    def _log(self, logger: object, method: str, event: Mapping[str, object]) -> str:
        """Write what is logged without a node's logger to the trace of the current host."""
        self.kernel.note("log", f"{method} {dict(event)}")
        if method == "exception" or event.get("exc_info"):
            self.kernel.violated("no request fails unexpectedly", f"{dict(event)}")
        raise structlog.DropEvent


class Run:
    """The standard scenario under one seed, on one cluster, or on several independent ones.

    `faulty` restricts faults to the clusters of these names. `brokers` is the number of brokers of a cluster; None: the
    seed chooses. `only` restricts faults to these kinds. `pace` is that of all nodes; None: the seed chooses.
    """

    def __init__(
        self,
        seed: int,
        settings: Mapping[str, str] | None = None,
        fault_ms: int = FAULT_MS,
        *,
        clusters: Sequence[str] = ("",),
        faulty: Sequence[str] | None = None,
        brokers: int | None = 1,
        only: Sequence[str] = (),
        pace: Pace | None = None,
    ) -> None:
        self.simulation = Simulation(seed)
        self.scenarios = [
            Scenario(
                self.simulation.add_cluster(name, settings, brokers, pace),
                fault_ms,
                faults=faulty is None or name in faulty,
                only=only,
            )
            for name in clusters
        ]
        self._running = len(self.scenarios)

    def finish(self) -> Result:
        """Run to the end."""
        simulation, kernel = self.simulation, self.simulation.kernel
        try:
            for scenario in self.scenarios:
                scenario.on_done = partial(self._scenario_done, scenario)
                kernel.schedule(0, scenario.cluster.owner, scenario.start)
            simulation.run(lambda: not self._running)
        finally:
            simulation.shut_down()
        return Result(
            kernel.seed,
            kernel.violation,
            kernel.digest,
            kernel.events,
            kernel.now_ms,
            kernel.counts,
            kernel.lines,
        )

    def _scenario_done(self, scenario: Scenario) -> None:
        """End the cluster of a scenario, so that its traces do not depend on how long other clusters run."""
        scenario.cluster.shut_down()
        self._running -= 1

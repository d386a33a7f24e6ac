"""One chaos run: a cluster under load, one fault after the other, and a check of the histories of all clients."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ottla.testing import Cluster
from tests.chaos.clients import Clients
from tests.chaos.faults import Faults, Plan
from tests.chaos.power_failure import PowerFailures
from tests.chaos.small_disk import SmallDisk
from tests.chaos.summary import Summary

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


class Chaos:
    """A cluster, its clients and its faults, with their data below one directory."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._summary = Summary(plan.brokers, plan.seed)

    def run(self) -> Summary:
        began = time.monotonic()
        data = self._folder / "data"
        data.mkdir()
        disks: dict[int, SmallDisk] = {}
        power = PowerFailures(self._folder, data) if self._plan.power else None
        before = dict(os.environ)
        if power is not None:
            os.environ.update(power.environment)
        try:
            if self._plan.full:
                for node_id in range(self._plan.brokers):
                    disks[node_id] = SmallDisk(data / f"broker-{node_id}")
            with Cluster(self._plan.brokers, config=SETTINGS, data=data) as cluster:
                self._run(cluster, power, disks)
        finally:
            os.environ.clear()
            os.environ.update(before)
            for disk in disks.values():
                disk.unmount(keep=sys.exc_info()[0] is not None or bool(self._summary.anomalies))
        self._summary.seconds = time.monotonic() - began
        if power is not None:
            self._summary.bytes_lost = power.bytes_lost
        return self._summary

    def _run(self, cluster: Cluster, power: PowerFailures | None, disks: dict[int, SmallDisk]) -> None:
        clients = Clients(cluster, self._folder, self._summary, java=self._plan.java)
        try:
            faults = Faults(self._plan, cluster, clients, self._summary, power, disks)
            faults.run()
            clients.finish()
            clients.measure(faults.moments)
        finally:
            clients.close()

"""`make soak`: three brokers under load and faults for hours; memory, open files, tasks and threads must stay flat.

Clients and faults are those of `make chaos`: pauses, network faults and, in the first third, kills. A killed
broker starts with new memory, so nothing is killed afterwards: in the last two thirds every process runs without a
restart. Every few seconds each broker is sampled: resident memory, open files and threads from `/proc`, tasks of the
event loop from its metrics.

The rule: of the samples of the second half, a straight line is fitted for each broker and each figure (least squares).
What the line grows from the middle to the end must be less than a tenth of its value in the middle, or than a small
absolute amount (`FIGURES`), because an idle pool may grow by a few entries. A figure that leaks by a constant amount
for each request, connection or fault fails that in a run of an hour.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from ottla.testing import Cluster
from tests.chaos.clients import RATE, Clients
from tests.chaos.faults import Faults, Plan
from tests.chaos.run import SETTINGS
from tests.chaos.summary import Summary

MIB = 1 << 20
SAMPLE_S = 5.0
KILLS_SHARE = 1 / 3
GROWTH_MAX = 0.1
SWITCH_INTERVAL_S = 0.0005
METRICS_ADDRESS = re.compile(r"metrics are served.*?http://127\.0\.0\.1:(\d+)/metrics")


class Figure(NamedTuple):
    """What is sampled: its name, unit, and the growth that is always allowed."""

    name: str
    unit: float
    unit_name: str
    allowed: float


FIGURES = (
    Figure("memory", MIB, "MiB", 8 * MIB),
    Figure("open files", 1, "", 16),
    Figure("tasks", 1, "", 10),
    Figure("threads", 1, "", 4),
)


class Sample(NamedTuple):
    """The figures of one broker at one time, in the order of `FIGURES`; `pid` changes with a restart."""

    at: float
    pid: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Trend:
    """The straight line through the samples of one figure in the second half."""

    middle: float
    end: float

    @property
    def growth(self) -> float:
        return self.end - self.middle

    def is_flat(self, figure: Figure) -> bool:
        return self.growth <= max(GROWTH_MAX * self.middle, figure.allowed)


def second_half(samples: Sequence[Sample]) -> list[Sample]:
    """The samples after half of the time; ValueError if the broker was restarted then."""
    began, ended = samples[0].at, samples[-1].at
    found = [sample for sample in samples if sample.at >= (began + ended) / 2]
    if len({sample.pid for sample in found}) != 1 or len(found) < 2:
        raise ValueError("the broker was restarted in the second half, or there are too few samples")
    return found


def trend(times: Sequence[float], values: Sequence[float]) -> Trend:
    """Fit a straight line (least squares); its values at the first and at the last time."""
    centre, level = mean(times), mean(values)
    spread = sum((each - centre) ** 2 for each in times)
    slope = sum((at - centre) * (value - level) for at, value in zip(times, values, strict=True)) / spread
    return Trend(level + slope * (times[0] - centre), level + slope * (times[-1] - centre))


def sample(cluster: Cluster, node_id: int) -> Sample | None:
    """Sample a broker; None if it does not run or does not respond now."""
    broker = cluster.brokers[node_id]
    if not broker.running or broker.paused:
        return None
    try:
        pid = broker.pid
        status = Path(f"/proc/{pid}/status").read_text()
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        *_, port = METRICS_ADDRESS.findall(broker.output())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
            metrics = response.read().decode()
    except (OSError, ValueError):
        return None
    return Sample(
        time.monotonic(),
        pid,
        (
            float(_number(r"VmRSS:\s+(\d+) kB", status)) * 1024,
            float(files),
            float(_number(r"(?m)^ottla_event_loop_tasks (\S+)", metrics)),
            float(_number(r"Threads:\s+(\d+)", status)),
        ),
    )


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{pattern} does not match")
    return found[1]


class Sampler(threading.Thread):
    """Samples all brokers until `stop`."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.samples: dict[int, list[Sample]] = {node_id: [] for node_id in cluster.brokers}
        self._cluster = cluster
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            for node_id, samples in self.samples.items():
                found = sample(self._cluster, node_id)
                if found is not None:
                    samples.append(found)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def table(samples: dict[int, list[Sample]]) -> tuple[str, bool]:
    """The figures of all brokers as a table, and whether all of them are flat."""
    rows = [
        f"{'':<10}{'figure':<12}{'samples':>8}{'least':>9}{'most':>9}{'middle':>9}{'end':>9}{'growth':>9}"
    ]
    flat = True
    for node_id, found in samples.items():
        later = second_half(found)
        for index, figure in enumerate(FIGURES):
            values = [each.values[index] for each in later]
            line = trend([each.at for each in later], values)
            is_flat = line.is_flat(figure)
            flat = flat and is_flat
            numbers = (min(values), max(values), line.middle, line.end, line.growth)
            shown = "".join(f"{number / figure.unit:>9.1f}" for number in numbers)
            verdict = "flat" if is_flat else "NOT FLAT"
            rows.append(
                f"broker {node_id:<3}{figure.name:<12}{len(later):>8}{shown} {figure.unit_name:<4} {verdict}"
            )
    return "\n".join(rows), flat


def main() -> int:
    parser = argparse.ArgumentParser("soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=RATE, help="records per second of each producer")
    chosen = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    folder = Path(tempfile.mkdtemp(prefix="ottla-soak-"))
    plan = Plan(brokers=3, seed=chosen.seed)
    summary = Summary(plan.brokers, plan.seed)
    began = time.monotonic()
    data = folder / "data"
    data.mkdir()
    with Cluster(3, config={**SETTINGS, "ottla.metrics.port": "0"}, data=data) as cluster:
        clients = Clients(cluster, folder, summary, java=False, rate=chosen.rate)
        sampler = Sampler(cluster)
        try:
            sampler.start()
            seconds = chosen.minutes * 60
            faults = Faults(plan, cluster, clients, summary, None, {})
            faults.run_for(seconds, kills_until_s=seconds * KILLS_SHARE)
            sampler.stop()
            text, flat = table(sampler.samples)
            print(f"second half of {seconds / 60:.0f} minutes\n{text}\n", flush=True)
            clients.finish()
            clients.measure(faults.moments)
        finally:
            clients.close()
    summary.seconds = time.monotonic() - began
    print(summary.text(), flush=True)
    if summary.anomalies or not flat:
        print(f"soak: the data are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

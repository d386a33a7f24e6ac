"""`make bench ARGS=--spark`: our data source beside Spark's own Kafka connector, on Ottla and on Apache Kafka.

On each broker one Spark runs both connectors in turns (`bench.spark_client`). Connectors are compared on the same
broker in the same run; real-time mode, which only Spark's own has, is compared between the brokers: what Kafka
acknowledges is in memory, what Ottla does is on the disk, by default. Both are measured with both settings.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import typer
from rich.console import Console
from rich.table import Table

from bench.peers import EVERY_MESSAGE_FLUSHED, KAFKA_FLUSH_POLICY, KafkaPeer, OttlaPeer, Peer
from bench.places import DATA, RESULTS, ROOT
from bench.spark_client import EAGER, LIVE_RATE, ONCE, OURS, RATES, STOCK, TURNS, Figures
from bench.spark_jars import COORDINATES, connector_jars
from ottla.pipelines.io.connectors import SHORT_FETCHES

KAFKA, KAFKA_SYNCED, OTTLA, POLICY = "kafka", "kafka, synced", "ottla", "ottla, Kafka's flush policy"
MODES = ROWS_MODE, LATENCY_MODE, REAL_TIME_MODE = "rows", "latency", "realtime"
BROKERS = {
    ROWS_MODE: (KAFKA, OTTLA),
    LATENCY_MODE: (KAFKA, OTTLA),
    REAL_TIME_MODE: (KAFKA, KAFKA_SYNCED, OTTLA, POLICY),
}
HEADINGS = ("row", "broker", "Spark's own connector", "data source ottla", "ratio")
READ, WRITE, TYPED, LATENCY, REAL_TIME = 2.0, 1.5, 2.0, 1.0, 1.2
TARGETS = {"read typed JSON": TYPED, "read": READ, "write": WRITE}
TIMEOUT_S = 3600
Measured = dict[str, Figures]
"""By broker, case and connector."""


@dataclass(frozen=True, slots=True)
class Scale:
    small: int
    large: int
    rounds: int
    seconds: float


FULL = Scale(small=4_000_000, large=1_000_000, rounds=3, seconds=10)
QUICK = Scale(small=200_000, large=50_000, rounds=1, seconds=4)


@dataclass(frozen=True, slots=True)
class Line:
    row: str
    broker: str
    stock: str
    ours: str
    ratio: float | None = None
    target: float | None = None
    at_most: bool = False

    @property
    def reached(self) -> bool | None:
        if self.ratio is None or self.target is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def cells(self) -> tuple[str, ...]:
        if self.ratio is None or self.target is None:
            return self.row, self.broker, self.stock, self.ours, ""
        wish = f"({'≤' if self.at_most else '≥'} {self.target:g}) {'✓' if self.reached else '✗'}"
        return self.row, self.broker, self.stock, self.ours, f"{self.ratio:.2f}× {wish}"


def measure(console: Console, scale: Scale, *, rows: list[str], only: str, save: bool) -> bool:
    """Measures, shows the tables and keeps them, one page for each mode; whether everything could be measured."""
    console.print(f"Spark's Kafka connector: {connector_jars()}")
    modes = [mode for mode in MODES if not rows or mode.startswith(tuple(rows))]
    if not modes:
        raise typer.BadParameter(f"no such rows; there are: {', '.join(MODES)}")
    complete = [_measure_mode(console, mode, scale, only=only, save=save) for mode in modes]
    return all(complete)


def _measure_mode(console: Console, mode: str, scale: Scale, *, only: str, save: bool) -> bool:
    measured: Measured = {}
    failures: list[str] = []
    began = datetime.now()
    for broker in (name for name in BROKERS[mode] if name.startswith(only)):
        with console.status(f"{broker}: {mode}"):
            try:
                measured[broker] = _run(broker, mode, _numbers(mode, scale))
            except (RuntimeError, OSError, subprocess.SubprocessError) as problem:
                failures.append(f"{broker}, {mode}: {problem}")
    lines = [*_rows(measured), *_latencies(measured), *_real_time(measured)]
    console.print(_rich(lines))
    for failure in failures:
        console.print(f"failed: {failure}", style="red", markup=False)
    if save:
        name = _write(mode, lines, measured, failures, scale, began)
        console.print(f"written to bench/results/{name}")
    return not failures


def _numbers(mode: str, scale: Scale) -> list[str]:
    if mode == ROWS_MODE:
        return [str(scale.small), str(scale.large), str(scale.rounds)]
    return [str(scale.seconds)]


def _peer(broker: str) -> Peer:
    if broker in {KAFKA, KAFKA_SYNCED}:
        return KafkaPeer(DATA / "spark-kafka", EVERY_MESSAGE_FLUSHED if broker == KAFKA_SYNCED else {})
    return OttlaPeer(DATA / "spark-ottla", KAFKA_FLUSH_POLICY if broker == POLICY else {})


def _run(broker: str, mode: str, numbers: list[str]) -> Figures:
    peer = _peer(broker)
    peer.wipe()
    os.sync()
    try:
        peer.start()
        command = [sys.executable, "-m", "bench.spark_client", mode, peer.bootstrap, *numbers]
        ran = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if ran.returncode:
            lines = [line[:200] for line in ran.stderr.splitlines() if not line.lstrip().startswith("at ")]
            raise RuntimeError("\n".join(["Spark failed", *[line for line in lines if line.strip()][-15:]]))
        figures: Figures = json.loads(ran.stdout.splitlines()[-1])
        return figures
    finally:
        peer.wipe()


def _in_short(failure: str) -> str:
    """Without the stack in between, whose paths are of this machine."""
    first, *others = failure.splitlines()
    return f"{first}: {others[-1]}" if others else first


def _rows(measured: Measured) -> Iterator[Line]:
    for broker, figures in measured.items():
        for case, by_connector in figures.items():
            target = next((number for start, number in TARGETS.items() if case.startswith(start)), None)
            if target is None:
                continue
            stock, ours = median(by_connector[STOCK]), median(by_connector[OURS])
            yield Line(f"{case}, rows/s", broker, f"{stock:,.0f}", f"{ours:,.0f}", ours / stock, target)


def _latencies(measured: Measured) -> Iterator[Line]:
    for broker, figures in measured.items():
        for case, found in figures.items():
            if not case.startswith("micro-batch"):
                continue
            for guarantee, ours in (("at least once", found[OURS]), ("ours exactly once", found[ONCE])):
                for fetches, stock in (("", found[STOCK]), (", its fetches short", found[EAGER])):
                    row = f"event → sink, p50 / p99 ms, {case}, {guarantee}{fetches}"
                    ratio = ours[0] / stock[0]
                    yield Line(row, broker, _delay(stock), _delay(ours), ratio, LATENCY, at_most=True)


def _real_time(measured: Measured) -> Iterator[Line]:
    for case in ("real time", "real time, aggregate"):
        row = f"event → sink, p50 / p99 ms, {case}"
        delays = {name: figures[case][STOCK] for name, figures in measured.items() if case in figures}
        for broker in (KAFKA, KAFKA_SYNCED):
            if broker in delays:
                yield Line(row, broker, _delay(delays[broker]), "–")
        for broker, peer in ((OTTLA, KAFKA), (OTTLA, KAFKA_SYNCED), (POLICY, KAFKA)):
            if broker in delays and peer in delays:
                ratio = delays[broker][0] / delays[peer][0]
                beside = f"{broker}, beside {peer}"
                yield Line(row, beside, _delay(delays[broker]), "–", ratio, REAL_TIME, at_most=True)


def _delay(figures: list[float]) -> str:
    return " / ".join(f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}" for figure in figures)


def _explained(mode: str, scale: Scale) -> list[str]:
    if mode == ROWS_MODE:
        return [
            f"- {scale.small:,} records of 100 B, {scale.large:,} of 1 KB, {scale.rounds} round(s), medians"
        ]
    rates = RATES if mode == LATENCY_MODE else (LIVE_RATE,)
    pace = (
        f"- {' and '.join(map(str, rates))} events a second for {scale.seconds:g} s, after as long to warm "
        f"up; medians of {TURNS - 1} turns after one that does not count"
    )
    if mode == LATENCY_MODE:
        shorter = ", ".join(f"{name}={value}" for name, value in SHORT_FETCHES.items())
        return [
            pace,
            "- micro-batches of both are tuned the same way; consumers read only what is committed. Spark's own "
            "connector writes at least once: rows that compare exactly-once with it are not like for like",
            "- in Spark's own connector a batch waits for the fetch that the one before has left behind, until the "
            f"next event or fetch.max.wait.ms. *Its fetches short*: with {shorter}, which spares it that",
        ]
    return [
        pace,
        "- only Spark's own connector has this mode: compared is the same query on Apache Kafka. What Ottla "
        "acknowledges is on the disk; *kafka, synced* is with log.flush.interval.messages=1, which does the same",
    ]


def _rich(lines: list[Line]) -> Table:
    table = Table(title="Spark: the data source ottla beside Spark's own connector (medians)")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for line in lines:
        table.add_row(*line.cells(), style="red" if line.reached is False else None)
    return table


def _write(
    mode: str, lines: list[Line], measured: Measured, failures: list[str], scale: Scale, began: datetime
) -> str:
    import pyspark

    RESULTS.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 1
    document = {
        "began": began.isoformat(timespec="seconds"),
        "cores": cores,
        "machine": platform.machine(),
        "pyspark": pyspark.__version__,
        "connector": COORDINATES,
        "scale": {name: getattr(scale, name) for name in scale.__slots__},
        "samples": measured,
        "failures": [_in_short(failure) for failure in failures],
    }
    name = f"spark-{mode}-{began:%Y-%m-%dT%H%M}-{cores}-cores.json"
    (RESULTS / name).write_text(json.dumps(document, indent=1) + "\n")
    page = f"spark-{mode}.md"
    out = [
        f"# Spark: the data source ottla beside Spark's own Kafka connector, {mode}",
        "",
        f"- {began:%Y-%m-%d}, {cores} cores, pyspark {pyspark.__version__}, {', '.join(COORDINATES)}",
        "- Spark, broker and load share the machine; connectors take turns in one Spark on one broker",
        *_explained(mode, scale),
        *(f"- failed: {_in_short(failure)}" for failure in failures),
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|---|---|" + "---:|" * (len(HEADINGS) - 2),
        *("| " + " | ".join(line.cells()) + " |" for line in lines),
    ]
    (RESULTS / page).write_text("\n".join(out) + "\n")
    return page

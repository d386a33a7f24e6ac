"""From samples to a verdict: medians over rounds, ratios, targets, a table for people and a file for
machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from bench.rows import Row, Target

Samples = dict[str, dict[str, dict[str, list[float]]]]
"""By broker, row key and figure, one number per round."""

KAFKA, POLICY, SYNCED, DISK = "kafka", "ottla-kafka-policy", "ottla-synced", "disk"
HEADINGS = ("row", "figure", "Kafka", "Ottla, Kafka's policy", "Ottla, synced", "disk loop")


@dataclass(frozen=True, slots=True)
class Ratio:
    value: float
    target: float | None
    at_most: bool
    beside_disk: bool

    @property
    def reached(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def text(self) -> str:
        mark = {None: "", True: " ✓", False: " ✗"}[self.reached]
        other = " of disk" if self.beside_disk else "×"
        wish = "" if self.target is None else f" ({'≤' if self.at_most else '≥'} {self.target:g})"
        return f"{self.value:.2f}{other}{wish}{mark}"


@dataclass(frozen=True, slots=True)
class Line:
    row: Row
    figure: str
    values: dict[str, float]
    policy: Ratio | None
    synced: Ratio | None


def lines(rows: Iterable[Row], samples: Samples) -> list[Line]:
    return [_line(row, figure, target, samples) for row in rows for figure, target in row.figures.items()]


def _line(row: Row, figure: str, target: Target, samples: Samples) -> Line:
    values = {}
    for broker, by_row in samples.items():
        numbers = by_row.get(row.key, {}).get(figure)
        if numbers:
            values[broker] = median(numbers)
    synced_other = DISK if target.synced_beside_disk else KAFKA
    return Line(
        row,
        figure,
        values,
        _ratio(values.get(POLICY), values.get(KAFKA), target.policy, target.at_most, False),
        _ratio(
            values.get(SYNCED),
            values.get(synced_other),
            target.synced,
            target.at_most,
            target.synced_beside_disk,
        ),
    )


def _ratio(
    ours: float | None, other: float | None, target: float | None, at_most: bool, disk: bool
) -> Ratio | None:
    if ours is None or not other:
        return None
    return Ratio(ours / other, target, at_most, disk)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _cells(line: Line) -> tuple[str, ...]:
    policy = _number(line.values.get(POLICY)) + (f"  {line.policy.text()}" if line.policy else "")
    synced = _number(line.values.get(SYNCED)) + (f"  {line.synced.text()}" if line.synced else "")
    return (
        line.row.title,
        line.figure,
        _number(line.values.get(KAFKA)),
        policy,
        synced,
        _number(line.values.get(DISK)),
    )


def rich_table(found: list[Line]) -> Table:
    table = Table(title="Ottla beside Apache Kafka (medians)")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    last = ""
    for line in found:
        if not line.values:
            continue
        title, *rest = _cells(line)
        colour = "red" if any(r and r.reached is False for r in (line.policy, line.synced)) else None
        table.add_row(title if title != last else "", *rest, style=colour)
        last = title
    return table


def markdown(found: list[Line], heading: str, notes: Iterable[str]) -> str:
    out = [f"# {heading}", ""]
    out += [f"- {note}" for note in notes]
    out += ["", "| " + " | ".join(HEADINGS) + " |", "|---|---|" + "---:|" * (len(HEADINGS) - 2)]
    out += ["| " + " | ".join(_cells(line)) + " |" for line in found if line.values]
    return "\n".join(out) + "\n"

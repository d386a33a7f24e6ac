"""Two transcripts beside each other: where they differ, and which of that is meant to be so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.compat.differential.catalog import Scenario

Transcript = list[tuple[str, Any]]
ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    scenario: str
    label: str
    path: str
    kafka: Any
    ottla: Any

    def __str__(self) -> str:
        return f"{self.scenario}: {self.label}: {self.path}: Kafka {self.kafka!r}, Ottla {self.ottla!r}"


@dataclass(frozen=True)
class Deliberate:
    """Differences that stay. The patterns must match scenario, label and path from their beginning."""

    scenario: str
    label: str
    path: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        return all(
            re.match(pattern, text)
            for pattern, text in (
                (self.scenario, difference.scenario),
                (self.label, difference.label),
                (self.path, difference.path),
            )
        )


def differences(scenario: Scenario, kafka: Transcript, ottla: Transcript) -> Iterator[Difference]:
    labels = [label for label, _ in kafka], [label for label, _ in ottla]
    if labels[0] != labels[1]:
        yield Difference(scenario.title, "the questions", "", *labels)
    for (label, theirs), (other, ours) in zip(kafka, ottla, strict=False):
        if label == other:
            for path, left, right in unequal(theirs, ours, ""):
                yield Difference(scenario.title, label, path, left, right)


def unequal(theirs: Any, ours: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs | ours:
            yield from unequal(theirs.get(key, ABSENT), ours.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        if _named(theirs) and _named(ours):
            left, right = ({one["name"]: one for one in side} for side in (theirs, ours))
            yield from unequal(left, right, path)
            return
        if len(theirs) != len(ours):
            yield f"{path}.length", len(theirs), len(ours)
        for index, (left, right) in enumerate(zip(theirs, ours, strict=False)):
            yield from unequal(left, right, f"{path}[{index}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield path, theirs, ours


def _named(values: list[Any]) -> bool:
    """Whether each element has a name of its own, so that lists can be compared by it."""
    names = [one.get("name") for one in values if isinstance(one, dict)]
    return len(names) == len(values) > 0 and None not in names and len(set(names)) == len(names)

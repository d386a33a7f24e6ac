"""The tables of requests in tests/unit/coordinator/request_tables, which docs/STATE_MACHINES.md also shows.

A table has a row for each request and sender and a column for each state. A cell is the name of an error code, or
WAITS for a response that is delayed, or `-` where the case cannot occur. An error code of Apache Kafka that differs
follows in parentheses.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

TABLES = Path(__file__).parents[1] / "unit" / "coordinator" / "request_tables"
WAITS = "waits"


class Case(NamedTuple):
    """One cell: the request of a sender in a state, and the expected result."""

    request: str
    sender: str
    state: str
    expected: str

    def __str__(self) -> str:
        return f"{self.request}-{self.sender}-{self.state}".replace(", ", ",").replace(" ", "_")


def load(name: str) -> list[Case]:
    """All cells of a table."""
    text = (TABLES / f"{name}.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    states = rows[0][2:]
    return [
        Case(row[0], row[1], state, cell.partition(" (Kafka: ")[0])
        for row in rows[2:]
        for state, cell in zip(states, row[2:], strict=True)
        if cell != "-"
    ]

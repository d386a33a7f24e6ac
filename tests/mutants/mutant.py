"""A mutant: a change of a few lines that breaks one rule of the code, and the tests that must fail.

The mutants of an area are the tables of one TOML file:

    [stale_generation_commits]
    rule = "a commit of an old generation is refused"
    file = "src/ottla/coordinator/group/classic/group.py"
    inside = "validate_commit"
    old = "if generation_or_epoch != self.generation:"
    new = "if generation_or_epoch > self.generation:"
    tests = ["tests/unit/coordinator/group", "sim"]

`old` is one or more whole lines, `new` what replaces them; indentation at the left edge is ignored, so are line
numbers and everything around the lines. A line of `old` that ends in `...` matches every line that begins like it, so
that a mutant does not depend on the text of messages. `old` must occur once in the file, or once in `inside`, the name
of a function or class.
`tests` are paths, `sim` for the simulation of one node, `sim-cluster` for that of three, `cores-quorum` and
`cores-replication` for those of the pure cores; they run in their order until one fails.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class DoesNotApply(Exception):
    """The lines that a mutant replaces do not occur exactly once."""


@dataclass(frozen=True)
class Mutant:
    name: str
    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    inside: str | None = None

    @property
    def needs_build(self) -> bool:
        return self.file.endswith(".pyx")

    def mutate(self, source: str) -> str:
        """The text of the file with this mutant in it; DoesNotApply if the lines are not found once."""
        lines = source.splitlines()
        wanted = [line.strip() for line in self.old.strip().splitlines()]
        first, last = self._scope(lines)
        found = [
            at
            for at in range(first, last - len(wanted) + 1)
            if all(map(_matches, lines[at : at + len(wanted)], wanted))
        ]
        if len(found) != 1:
            where = f"{self.file}::{self.inside}" if self.inside else self.file
            raise DoesNotApply(f"{self.name}: {len(found)} occurrences in {where} of:\n{self.old}")
        at = found[0]
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        replacement = textwrap.indent(textwrap.dedent(self.new).strip("\n"), indent).splitlines()
        return "\n".join([*lines[:at], *replacement, *lines[at + len(wanted) :], ""])

    def _scope(self, lines: list[str]) -> tuple[int, int]:
        """The range of lines in which `old` is looked for."""
        if self.inside is None:
            return 0, len(lines)
        begins = re.compile(
            rf"(\s*)(?:async def|def|class|cdef|cpdef)\s(?:.*\s)?\*?{re.escape(self.inside)}\b"
        )
        heads = [(at, match) for at, line in enumerate(lines) if (match := begins.match(line))]
        if len(heads) != 1:
            raise DoesNotApply(f"{self.name}: {self.file} has {len(heads)} functions {self.inside}")
        first, match = heads[0]
        indent = len(match.group(1))
        for at in range(first + 1, len(lines)):
            line = lines[at]
            if line.strip() and len(line) - len(line.lstrip()) <= indent and line.strip()[0] not in ")]}":
                return first, at
        return first, len(lines)


def _matches(line: str, wanted: str) -> bool:
    if wanted.endswith("..."):
        return line.strip().startswith(wanted.removesuffix("..."))
    return line.strip() == wanted


def load(path: Path) -> list[Mutant]:
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
    return [
        Mutant(name=f"{path.stem}.{name}", **{**table, "tests": tuple(table["tests"])})
        for name, table in tables.items()
    ]


def load_all() -> list[Mutant]:
    return [mutant for path in sorted(HERE.glob("*.toml")) for mutant in load(path)]

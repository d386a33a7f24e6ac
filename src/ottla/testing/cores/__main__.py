"""Command: simulate the pure cores over many seeds. `python -m ottla.testing.cores --seeds 1000`."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from ottla.testing.cores.event_queue import Violation
from ottla.testing.cores.quorum import QuorumSimulation
from ottla.testing.cores.replication import ReplicationSimulation
from ottla.testing.cores.voters import VotersSimulation

_CORES: Final[dict[str, type[QuorumSimulation | ReplicationSimulation]]] = {
    "quorum": QuorumSimulation,
    "voters": VotersSimulation,
    "replication": ReplicationSimulation,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.cores", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--seeds", type=int, default=100, help="run N seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of these seeds")
    parser.add_argument("--core", choices=list(_CORES), help="run only this core")
    parser.add_argument("--first-only", action="store_true", help="stop at the first violation")
    options = parser.parse_args(arguments)
    first = options.first
    seeds = [options.seed] if options.seed is not None else range(first, first + options.seeds)
    console = Console(width=160)
    violations = 0
    for name, make in _CORES.items():
        if options.core in (None, name) and not (violations and options.first_only):
            violations += _run(name, make, seeds, console, first_only=options.first_only)
    return 1 if violations else 0


def _run(
    name: str,
    make: type[QuorumSimulation | ReplicationSimulation],
    seeds: Sequence[int],
    console: Console,
    *,
    first_only: bool,
) -> int:
    """Run a core with all seeds, print what happened, and return the number of violations."""
    started = time.process_time()
    totals: Counter[str] = Counter()
    milliseconds = 0.0
    violations = 0
    for seed in seeds:
        simulation = make(seed)
        gc.disable()  # the objects of a run are released at its end
        try:
            summary = simulation.run()
        except Violation as violation:
            violations += 1
            console.print(f"[red]{name} seed {seed} violates:[/] {violation} (at {simulation.now:.1f} ms)")
        else:
            counts = dataclasses.asdict(summary)
            totals.update({key: count for key, count in counts.items() if key not in ("seed", "trace")})
        milliseconds += simulation.now
        gc.enable()
        if violations and first_only:
            break
    seconds = time.process_time() - started
    listed = ", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in totals.items())
    console.print(
        f"{name}: {len(seeds)} seeds, {milliseconds / 3_600_000:.2f} simulated hours, {listed}, "
        f"{violations} violations; {milliseconds / 1000 / seconds:.0f} times real time on one processor",
        highlight=False,
    )
    return violations


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

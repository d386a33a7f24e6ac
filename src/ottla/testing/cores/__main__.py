"""Command: simulate the pure cores over many seeds. `python -m ottla.testing.cores --seeds 1000`."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console

from ottla.testing.cores.quorum import QuorumSimulation, Violation


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.cores", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--seeds", type=int, default=100, help="run the seeds 1 to N")
    options = parser.parse_args(arguments)
    seeds = [options.seed] if options.seed is not None else range(1, options.seeds + 1)
    console = Console(width=160)
    started = time.perf_counter()
    events = elections = kills = committed = 0
    violations = 0
    for seed in seeds:
        simulation = QuorumSimulation(seed)
        try:
            summary = simulation.run()
        except Violation as violation:
            violations += 1
            console.print(f"[red]seed {seed} violates:[/] {violation} (at {simulation.now:.1f} ms)")
            continue
        events += summary.events
        elections += summary.elections
        kills += summary.kills
        committed += summary.committed
    seconds = time.perf_counter() - started
    hours = len(seeds) * 55 / 3600
    console.print(
        f"quorum: {len(seeds)} seeds, {hours:.2f} simulated hours, {events} events, {elections} elections, "
        f"{kills} kills, {committed} committed records, {violations} violations; "
        f"{hours * 3600 / seconds:.0f} times real time"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

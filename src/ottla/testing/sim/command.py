"""Command `python -m ottla.testing.sim`: runs one seed or many, and prints a table of what happened.

For one seed the digest is printed: the same seed on the same code gives the same digest on every machine. Many seeds
are distributed over processes. The exit code is 1 if an invariant is violated.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ottla.testing.sim.disk_faults import DiskFaults
from ottla.testing.sim.disk_losses import DiskLosses
from ottla.testing.sim.kernel.pace import PACES, Pace
from ottla.testing.sim.run import FAULT_MS, Result, Run

_LINES_SHOWN: Final = 60
_PACE_NAMES: Final = ", ".join(pace.name for pace in PACES)
_REPEAT_COMMAND: Final = "make sim SEED={}"


def simulate(
    seed: Annotated[int | None, typer.Option(help="Run only this seed, and show its digest.")] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 100,
    first: Annotated[int, typer.Option(help="The first seed.")] = 1,
    seconds: Annotated[int, typer.Option(help="Virtual seconds with faults in each run.")] = FAULT_MS // 1000,
    nodes: Annotated[int, typer.Option(help="Number of brokers in each run; 0: the seed chooses.")] = 0,
    fault: Annotated[list[str], typer.Option(help="Inject only faults of this kind; may be repeated.")] = [],  # noqa: B006
    pace: Annotated[
        str, typer.Option(help=f"Pace of all nodes: {_PACE_NAMES}; by default the seed chooses.")
    ] = "",
    jobs: Annotated[int, typer.Option(help="Number of processes; 0: one for each processor.")] = 0,
    first_only: Annotated[bool, typer.Option(help="Stop at the first violation.")] = False,
    trace: Annotated[bool, typer.Option(help="Show the last lines of the trace.")] = False,
) -> None:
    """Run the broker with simulated clients, network, disk and clock, and inject faults."""
    _check_faults(fault, nodes)
    work = partial(
        _run_quietly, fault_ms=seconds * 1000, brokers=nodes or None, only=fault, pace=_pace_of(pace)
    )
    console = Console()
    if seed is not None:
        result = work(seed)
        console.print(_table([result]))
        if trace:
            _show_lines(console, result)
        console.print(
            f"seed {seed}: {result.events} events, {result.virtual_ms} virtual ms, digest {result.digest}"
        )
        results = [result]
    else:
        numbers = range(first, first + seeds)
        if first_only:
            results = _run_until_violated(numbers, work)
        else:
            results = _run_many(console, numbers, work, jobs or os.cpu_count() or 1)
        console.print(_table(results))
    console.print(_summary(results), highlight=False)
    failed = [result for result in results if result.violation is not None]
    for result in failed[:5]:
        _show_failure(console, result)
    if failed:
        listed = ", ".join(str(result.seed) for result in failed)
        console.print(f"[bold red]{len(failed)} of {len(results)} seeds violate an invariant:[/] {listed}")
        sys.exit(1)
    console.print(f"[bold green]{len(results)} seeds, no violation[/]")


def _check_faults(kinds: Sequence[str], nodes: int) -> None:
    """Refuse kinds of faults that do not exist, or not in every run."""
    unknown = sorted({*kinds} - {*DiskLosses.kinds()})
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(DiskLosses.kinds())}")
    of_clusters = sorted({*kinds} - {*DiskFaults.kinds()})
    if of_clusters and nodes < 2:
        raise typer.BadParameter(f"{', '.join(of_clusters)}: only with several brokers, such as --nodes 3")


def _pace_of(name: str) -> Pace | None:
    """The pace of that name; None if the seed chooses."""
    found = {pace.name: pace for pace in PACES}.get(name)
    if name and found is None:
        raise typer.BadParameter(f"unknown pace: {name}; known: {_PACE_NAMES}")
    return found


def _run_until_violated(seeds: range, work: Callable[[int], Result]) -> list[Result]:
    results = []
    for seed in seeds:
        results.append(work(seed))
        if results[-1].violation is not None:
            break
    return results


def _run_quietly(
    seed: int, fault_ms: int, brokers: int | None, only: Sequence[str], pace: Pace | None
) -> Result:
    """Run a seed without Python's warnings about coroutines of killed processes, which are never awaited."""
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    return Run(seed, fault_ms=fault_ms, brokers=brokers, only=only, pace=pace).finish()


def _run_many(console: Console, seeds: range, work: Callable[[int], Result], jobs: int) -> list[Result]:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
    )
    results = []
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
    ):
        bar = progress.add_task("", total=len(seeds), status="")
        waiting = [pool.submit(work, seed) for seed in seeds]
        broken = 0
        for done in as_completed(waiting):
            result = done.result()
            results.append(result)
            if result.violation is not None:
                broken += 1
                progress.console.print(f"[red]seed {result.seed} violates:[/] {result.violation.rule}")
            status = f"[red]{broken} violations[/]" if broken else "no violation"
            progress.update(bar, advance=1, status=status)
    return sorted(results, key=lambda result: result.seed)


def _table(results: list[Result]) -> Table:
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result.counts)
    table = Table(title="What happened")
    table.add_column("")
    table.add_column("times", justify="right")
    table.add_column("seeds", justify="right")
    table.add_row("events", f"{sum(r.events for r in results):,}", str(len(results)))
    table.add_row("virtual seconds", f"{sum(r.virtual_ms for r in results) // 1000:,}", str(len(results)))
    for what, times in sorted(totals.items(), key=lambda each: (each[0].startswith("error "), each[0])):
        table.add_row(what, f"{times:,}", str(sum(1 for r in results if r.counts[what])))
    return table


def _summary(results: list[Result]) -> str:
    """One line for reports."""
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result.counts)
    hours = sum(result.virtual_ms for result in results) / 3_600_000
    violations = sum(result.violation is not None for result in results)
    return (
        f"{len(results)} seeds, {hours:.2f} simulated hours, {totals['faults']:,} faults, "
        f"{totals['quorum elections']:,} elections of controllers, "
        f"{totals['partition elections']:,} of partition leaders, "
        f"{totals['records acknowledged']:,} records acknowledged, {violations} violations"
    )


def _show_failure(console: Console, result: Result) -> None:
    violation = result.violation
    if violation is None:
        return
    _show_lines(console, result)
    console.print(f"[bold red]seed {result.seed} violates:[/] {violation.rule}", highlight=False)
    console.print(violation.detail, markup=False, highlight=False)
    console.print(f"repeat with: [bold]{_REPEAT_COMMAND.format(result.seed)}[/]")


def _show_lines(console: Console, result: Result) -> None:
    for line in result.last_lines[-_LINES_SHOWN:]:
        console.print(line, markup=False, highlight=False)

"""`python -m fuzz frames`: rounds of frames in several processes, with a progress bar and a table at the end."""

from __future__ import annotations

import gc
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import typer

from fuzz.frames.engine import ROUND_FRAMES, Counts, Found, run_round
from fuzz.frames.report import by_api, summary
from fuzz.frames.reproduce import replay, save, signature

FOLDER = Path("fuzz-failures")
_BAR = 30


def _round(seed: int, number: int, frames: int) -> tuple[int, Counts, list[Found]]:
    gc.freeze()
    engine = run_round(seed, number, frames)
    distinct: dict[str, Found] = {}
    for found in engine.found:
        distinct.setdefault(signature(found.failure), found)
    return number, engine.counts, list(distinct.values())


def _show(done: int, total: int, counts: Counts, started: float) -> None:
    filled = _BAR * done // max(total, 1)
    rate = done / max(time.monotonic() - started, 0.001)
    failures = sum(counts.failures.values())
    bar = "#" * filled + "-" * (_BAR - filled)
    text = f"[{bar}] {done:,} of {total:,} frames, {rate:,.0f}/s, {failures} failures"
    typer.echo(f"\r{text}", nl=False, err=True)


def run(
    frames: int = typer.Option(200_000, help="How many frames."),
    seconds: float = typer.Option(0, help="End after this time, if it is not 0."),
    seed: int = typer.Option(1, help="The same seed gives the same frames."),
    processes: int = typer.Option(os.cpu_count() or 1, help="How many processes."),
    apis: bool = typer.Option(True, help="Print the frames of each API."),
) -> None:
    """Send mutated frames to clusters in this process; ends with 1 if one of them fails."""
    started = time.monotonic()
    total = Counts()
    known: set[str] = set()
    rounds = -(-frames // ROUND_FRAMES)
    numbers = iter(range(rounds))
    # A new process for each few rounds: memory that one round needs is returned.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=10) as pool:
        pending: set[Future[tuple[int, Counts, list[Found]]]] = set()

        def submit() -> None:
            late = seconds and time.monotonic() - started > seconds
            number = None if late else next(numbers, None)
            if number is not None:
                left = frames - number * ROUND_FRAMES
                pending.add(pool.submit(_round, seed, number, min(ROUND_FRAMES, left)))

        for _ in range(processes + 1):
            submit()
        while pending:
            done, _ = wait(pending, timeout=5, return_when=FIRST_COMPLETED)
            pending -= done
            for future in done:
                number, counts, found = future.result()
                total.add(counts)
                for each in found:
                    _report(each, seed, number, known)
                submit()
            _show(total.frames, frames, total, started)
    typer.echo("", err=True)
    typer.echo(summary(total, time.monotonic() - started))
    if apis:
        typer.echo(f"\nframes by API\n{by_api(total)}")
    if total.failures:
        raise typer.Exit(1)


def _report(found: Found, seed: int, number: int, known: set[str]) -> None:
    """Print a failure that is new, and the command that repeats it."""
    name = signature(found.failure)
    if name in known:
        return
    known.add(name)
    typer.echo(f"\n{name}\n{found.failure.detail}")
    path = save(FOLDER, found, seed, number)
    typer.echo(f"repeat it with: python -m fuzz replay {path}")


def replay_file(path: Path) -> None:
    """Deliver the frames of a saved failure to a new cluster, and print what happens."""
    found = replay(path)
    for each in found:
        typer.echo(f"{each.failure.kind}\n{each.failure.detail}")
    typer.echo(f"{len(found)} failures")
    if found:
        raise typer.Exit(1)

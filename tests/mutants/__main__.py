"""Applies each mutant to a copy of the tree and asks its judges: `make mutants`, or with names: ARGS='03 17'.

First all judges are asked about the tree as it is: who objects to that judges nothing. The exit code is 1 if a
mutant survives, a patch does not fit, or a judge is not sober.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.mutants.mutant import Mutant, load_all

ROOT = Path(__file__).resolve().parents[2]
SIM = "sim"
SIM_SEEDS = 60
SIM_SECONDS = 6
PATIENCE_SECONDS = 600
_JOBS = 2


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    caught_by: str | None
    evidence: str
    seconds: float


def copy_tree(target: Path) -> Path:
    """What tests and simulation need, apart from the tree that others work in."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.c", "compat")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def objection(judge: str, tree: Path) -> str | None:
    """What a judge has against a tree; None if nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", judge]
    if judge == SIM:
        command = [sys.executable, "-m", "ottla.testing.sim", "--first-only", "--seeds", str(SIM_SEEDS)]
        command += ["--seconds", str(SIM_SECONDS)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
    }
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "does not come to an end"
    if done.returncode == 0:
        return None
    found = re.search(r"seed \d+ violates: .*|^FAILED \S+|^ERROR \S+", done.stdout, re.MULTILINE)
    return (
        found.group().replace("tests/unit/coordinator/", "")
        if found
        else done.stdout[-200:] + done.stderr[-200:]
    )


def try_mutant(mutant: Mutant, trees: SimpleQueue[Path]) -> Verdict:
    tree = trees.get()
    started = time.perf_counter()
    try:
        mutant.apply(tree)
        for judge in mutant.judges:
            found = objection(judge, tree)
            if found is not None:
                return Verdict(mutant, judge, found, time.perf_counter() - started)
        return Verdict(mutant, None, "survives", time.perf_counter() - started)
    except subprocess.CalledProcessError as error:
        return Verdict(mutant, None, f"does not apply: {error.stderr.strip()}", 0.0)
    finally:
        subprocess.run(
            ["git", "apply", "-C1", "--reverse", str(mutant.path)], cwd=tree, check=False, capture_output=True
        )
        trees.put(tree)


def main(wanted: list[str]) -> int:
    console = Console(width=200)
    mutants = [each for each in load_all() if not wanted or each.name.startswith(tuple(wanted))]
    table = Table("mutant", "rule that it breaks", "caught by", "evidence", "seconds")
    with TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(_JOBS) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(_JOBS):
            trees.put(copy_tree(Path(folder) / str(number)))
        judges = sorted({judge for mutant in mutants for judge in mutant.judges})
        tree = trees.get()
        drunk = {judge: found for judge in judges if (found := objection(judge, tree)) is not None}
        trees.put(tree)
        for judge, found in drunk.items():
            console.print(f"[red]{judge} objects to the tree as it is:[/] {found}")
        if drunk:
            return 1
        console.print(f"{len(judges)} judges have nothing against the tree as it is; {len(mutants)} mutants")
        verdicts = []
        for verdict in pool.map(lambda each: try_mutant(each, trees), mutants):
            verdicts.append(verdict)
            caught = verdict.caught_by or "[bold red]nobody[/]"
            console.print(f"{verdict.mutant.name}: {caught}: {verdict.evidence[:150]}", highlight=False)
            table.add_row(
                verdict.mutant.name,
                verdict.mutant.rule,
                caught,
                verdict.evidence[:120],
                f"{verdict.seconds:.0f}",
            )
    console.print(table)
    survivors = [verdict for verdict in verdicts if verdict.caught_by is None]
    console.print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

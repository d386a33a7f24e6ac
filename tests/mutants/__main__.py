"""Applies each mutant to a copy of the tree and runs its tests: `make mutants`, or some: ARGS='storage broker.acks'.

First all these tests run on the unchanged tree, where they must pass. The exit code is 1 if one of them fails there,
if a mutant survives its tests, or if a mutant does not apply. A mutant of a compiled module is compiled in the copy.
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

from tests.mutants.mutant import DoesNotApply, Mutant, load_all

ROOT = Path(__file__).resolve().parents[2]
SIM = "sim"
SIM_CLUSTER = "sim-cluster"
CORES = ("cores-quorum", "cores-voters", "cores-replication")
SIM_SEEDS = 60
SIM_CLUSTER_SECONDS = 8
SIM_CLUSTER_SEEDS = 12
CORE_SEEDS = 60
SIM_SECONDS = 6
TIMEOUT_SECONDS = 600
_JOBS = 2


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    caught_by: str | None
    evidence: str
    seconds: float


def copy_tree(target: Path) -> Path:
    """Copy what tests and the simulation need, compiled modules included."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "compat")
    for name in ("src", "tests", "fuzz"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def run(command: list[str], tree: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
    }
    return subprocess.run(
        command,
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def failure(tests: str, tree: Path) -> str | None:
    """The first failure of these tests in a tree; None if they pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    if tests == SIM:
        command = [sys.executable, "-m", "ottla.testing.sim", "--first-only", "--seeds", str(SIM_SEEDS)]
        command += ["--seconds", str(SIM_SECONDS), "--nodes", "1"]
    if tests == SIM_CLUSTER:
        command = [sys.executable, "-m", "ottla.testing.sim", "--first-only"]
        command += ["--seeds", str(SIM_CLUSTER_SEEDS), "--seconds", str(SIM_CLUSTER_SECONDS), "--nodes", "3"]
    if tests in CORES:
        command = [sys.executable, "-m", "ottla.testing.cores", "--seeds", str(CORE_SEEDS), "--first-only"]
        command += ["--core", tests.removeprefix("cores-")]
    try:
        done = run(command, tree)
    except subprocess.TimeoutExpired:
        return f"no end within {TIMEOUT_SECONDS} s"
    if done.returncode == 0:
        return None
    found = re.search(r"(?:\w+ )?seed \d+ violates: .*|^FAILED \S+|^ERROR \S+", done.stdout, re.MULTILINE)
    return found.group().replace("tests/unit/", "") if found else done.stdout[-200:] + done.stderr[-200:]


def build(mutant: Mutant, tree: Path) -> None:
    """Compile the mutant's module, in place and no other."""
    done = run([sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-f", "-3", mutant.file], tree)
    if done.returncode != 0:
        raise DoesNotApply(f"{mutant.name} does not compile: {done.stderr[-300:]}")


def try_mutant(mutant: Mutant, trees: SimpleQueue[Path]) -> Result:
    tree = trees.get()
    started = time.perf_counter()
    changed = tree / mutant.file
    original = changed.read_text()
    compiled = {path: path.read_bytes() for path in changed.parent.glob(f"{changed.stem}.*.so")}
    try:
        changed.write_text(mutant.mutate(original))
        if mutant.needs_build:
            build(mutant, tree)
        for tests in mutant.tests:
            found = failure(tests, tree)
            if found is not None:
                return Result(mutant, tests, found, time.perf_counter() - started)
        return Result(mutant, None, "survives", time.perf_counter() - started)
    except DoesNotApply as error:
        return Result(mutant, None, str(error), 0.0)
    finally:
        changed.write_text(original)
        for path, content in compiled.items():
            path.write_bytes(content)
        trees.put(tree)


def main(wanted: list[str]) -> int:
    console = Console(width=200)
    mutants = [each for each in load_all() if not wanted or each.name.startswith(tuple(wanted))]
    table = Table("mutant", "rule that it breaks", "caught by", "evidence", "seconds")
    with TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(_JOBS) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(_JOBS):
            trees.put(copy_tree(Path(folder) / str(number)))
        if not _unchanged_tree_passes(mutants, trees, pool, console):
            return 1
        results = []
        for result in pool.map(lambda each: try_mutant(each, trees), mutants):
            results.append(result)
            caught = result.caught_by or "[bold red]nothing[/]"
            console.print(f"{result.mutant.name}: {caught}: {result.evidence[:150]}", highlight=False)
            table.add_row(
                result.mutant.name, result.mutant.rule, caught, result.evidence[:120], f"{result.seconds:.0f}"
            )
    console.print(table)
    survivors = [result for result in results if result.caught_by is None]
    console.print(f"{len(results) - len(survivors)} of {len(results)} mutants caught")
    return 1 if survivors else 0


def _unchanged_tree_passes(
    mutants: list[Mutant], trees: SimpleQueue[Path], pool: ThreadPoolExecutor, console: Console
) -> bool:
    """Run the tests of all mutants on the unchanged tree: a test that fails there proves nothing."""

    def check(tests: str) -> str | None:
        tree = trees.get()
        try:
            return failure(tests, tree)
        finally:
            trees.put(tree)

    paths = sorted({tests for mutant in mutants for tests in mutant.tests})
    failing = {path: found for path, found in zip(paths, pool.map(check, paths), strict=True) if found}
    for path, found in failing.items():
        console.print(f"[red]{path} fails on the unchanged tree:[/] {found}")
    if not failing:
        console.print(f"{len(paths)} test paths pass on the unchanged tree; {len(mutants)} mutants")
    return not failing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

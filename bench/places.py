"""Where the bench keeps what it fetches, builds and measures; everything but the results can be deleted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
KAFKA_LIBS = WORK / "kafka" / "libs"
SPARK_JARS = WORK / "spark-jars"
DATA = WORK / "data"
RESULTS = ROOT / "bench" / "results"
LOAD = WORK / "load"
FRAMES = WORK / "frames"


def build_loads() -> None:
    """Compiles the load generators whose source is newer."""
    for program in (LOAD, FRAMES):
        source = ROOT / "bench" / f"{program.name}.c"
        if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
            continue
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("bench: a C compiler (cc) is needed for the load generators")
        WORK.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)], check=True)

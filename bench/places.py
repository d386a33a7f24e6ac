"""Where the bench keeps what it fetches, builds and measures; everything but the results can be deleted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
KAFKA_LIBS = WORK / "kafka" / "libs"
DATA = WORK / "data"
RESULTS = ROOT / "bench" / "results"
LOAD_SOURCE = ROOT / "bench" / "load.c"
LOAD = WORK / "load"


def build_load() -> Path:
    """Compiles the load generator when its source is newer."""
    if LOAD.exists() and LOAD.stat().st_mtime >= LOAD_SOURCE.stat().st_mtime:
        return LOAD
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("bench: a C compiler (cc) is needed for the load generator")
    WORK.mkdir(exist_ok=True)
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(LOAD), str(LOAD_SOURCE)], check=True)
    return LOAD

"""Where the bench keeps what it fetches, builds and measures; everything but the results can be deleted."""

from __future__ import annotations

import compileall
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


def compile_bytecode() -> None:
    """Compile the bytecode of Ottla, as an installation does: PYTHONDONTWRITEBYTECODE may be set here."""
    compileall.compile_dir(ROOT / "src", quiet=2)


def build_loads() -> None:
    """Compiles the load generators whose source is newer."""
    compile_bytecode()
    for program in (LOAD, FRAMES):
        source = ROOT / "bench" / f"{program.name}.c"
        if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
            continue
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("bench: a C compiler (cc) is needed for the load generators")
        WORK.mkdir(exist_ok=True)
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)], check=True)

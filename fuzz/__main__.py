"""`make fuzz`: every target beside this file for a while, one after the other.

A target that needs atheris is skipped, and said to be, where atheris is not installed: hypothesis feeds the same
function in `make test`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import typer

HERE = Path(__file__).parent


def main(seconds: int = 60) -> None:
    """Run each fuzz target for so many seconds; ends with 1 as soon as one finds something."""
    for target in sorted(HERE.glob("[a-z]*.py")):
        needs_atheris = "import atheris" in target.read_text()
        if needs_atheris and find_spec("atheris") is None:
            typer.echo(f"{target.stem}: skipped, atheris is not installed")
            continue
        typer.echo(f"{target.stem}: {seconds} s")
        option = [f"-max_total_time={seconds}"] if needs_atheris else ["--seconds", str(seconds)]
        if subprocess.run([sys.executable, str(target), *option], check=False).returncode:
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

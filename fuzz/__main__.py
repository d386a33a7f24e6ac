"""`make fuzz`: mutated frames to clusters in this process and over sockets, and every target beside this file.

A target that needs atheris is skipped, with a message, if atheris is not installed: hypothesis feeds the same
function in `make test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import typer

from fuzz.frames import command, sockets

HERE = Path(__file__).parent
app = typer.Typer(add_completion=False, help=__doc__)
app.command("frames")(command.run)
app.command("sockets")(sockets.run)
app.command("replay")(command.replay_file)


@app.command()
def targets(seconds: int = typer.Option(60, help="How long each target runs.")) -> None:
    """Run the decoder, the validator of batches and recovery with malformed bytes; ends with 1 at the first failure."""
    for target in sorted(HERE.glob("[a-z]*.py")):
        needs_atheris = "import atheris" in target.read_text()
        if needs_atheris and find_spec("atheris") is None:
            typer.echo(f"{target.stem}: skipped, atheris is not installed")
            continue
        typer.echo(f"{target.stem}: {seconds} s")
        option = [f"-max_total_time={seconds}"] if needs_atheris else ["--seconds", str(seconds)]
        if subprocess.run([sys.executable, "-m", f"fuzz.{target.stem}", *option], check=False).returncode:
            raise typer.Exit(1)


@app.command("all")
def run_all(
    frames: int = typer.Option(200_000, help="How many frames in process."),
    over_sockets: int = typer.Option(20_000, help="How many frames over sockets."),
    seconds: int = typer.Option(20, help="How long each of the other targets runs."),
    seed: int = typer.Option(1, help="The same seed gives the same frames."),
) -> None:
    """Run frames in process and over sockets, then all other targets."""
    command.run(frames=frames, seconds=0, seed=seed, processes=os.cpu_count() or 1, apis=True)
    sockets.run(frames=over_sockets, seed=seed, connections=sockets.CONNECTIONS, apis=False)
    targets(seconds=seconds)


if __name__ == "__main__":
    app()

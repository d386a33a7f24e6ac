"""`python -m ottla.testing.sim`."""

from __future__ import annotations

import typer

from ottla.testing.sim.command import simulate

if __name__ == "__main__":
    typer.run(simulate)

"""Confirmation of destructive commands: show what will happen, then ask, unless `--yes` or `--dry-run` is given."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ottla.cli.output import Output
from ottla.cli.terminal import REFUSED

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]


def confirmed(output: Output, what: str, *, yes: bool, dry_run: bool) -> bool:
    """Whether to do it; False with `--dry-run`. Exit with code 2 if the user declines, or cannot be asked."""
    if dry_run:
        output.note(f"{what}: nothing was changed (--dry-run)")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        output.note(f"ottla: {what}: give --yes, because there is no terminal for a question")
        raise typer.Exit(REFUSED)
    sys.stderr.write(f"{what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        output.note("Nothing was changed.")
        raise typer.Exit(REFUSED)
    return True

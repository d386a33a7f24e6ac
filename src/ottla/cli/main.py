"""The `ottla` command.

Commands are loaded when they are called: `cli.commands` has their names and a summary of each for the help. `ottla
broker` does not load typer at all, so that the start of a broker stays short.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, TextIO

from ottla.cli.closed_pipe import discard_closed, discard_output

if TYPE_CHECKING:
    import typer


COMPLETION_VARIABLE = "_OTTLA_COMPLETE"
"""Set by the script of `ottla completion` while the shell completes a command line."""


def _app() -> typer.Typer:
    import typer

    from ottla.cli.commands import CommandTable
    from ottla.cli.context import global_options

    app = typer.Typer(
        cls=CommandTable,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(global_options)
    return app


def _replace_closed_streams() -> None:
    """Discard the output if standard output or standard error was closed before the start (`ottla ... >&-`)."""
    streams: tuple[TextIO | None, ...] = (sys.stdout, sys.stderr)
    if None in streams:
        nothing = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open until the end
        sys.stdout, sys.stderr = sys.stdout or nothing, sys.stderr or nothing


def main() -> None:
    try:
        _run()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        discard_output()
        sys.exit(f"ottla: cannot write the output: {error.strerror}")
    finally:
        discard_closed()


def _run() -> None:
    if sys.argv[1:2] == ["broker"]:
        from ottla.cli import broker

        sys.exit(broker.main(sys.argv[2:]))
    _replace_closed_streams()
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    _app()(prog_name="ottla")


if __name__ == "__main__":
    main()

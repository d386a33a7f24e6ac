"""What the commands share: a console, errors in one line, signal handling."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ottla.base.errors import LocalError, OttlaError

if TYPE_CHECKING:
    from rich.console import Console

FAILED, REFUSED = 1, 2
"""Exit codes."""
WIDE = 240
"""Columns if the output is not a terminal: other programs read it, and names must not be truncated."""


def make_console() -> Console:
    from rich.console import Console

    class CommandConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `quiet_end`; rich would exit with code 1

    console = CommandConsole()
    return console if console.is_terminal else CommandConsole(width=WIDE)


@contextmanager
def report_errors() -> Iterator[Console]:
    """As `exit_on_errors`, with a console for the command."""
    with exit_on_errors():
        yield make_console()


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Print an error as one line instead of a traceback, and exit with `exit_code`."""
    try:
        yield
    except OttlaError as error:
        print_error(str(error))
        raise typer.Exit(exit_code(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def exit_code(error: OttlaError) -> int:
    """2 if this program or the cluster refused the request: nothing was done. 1 if it failed.

    Refused are invalid arguments, topics, groups, partitions and offsets that do not exist, and error codes that are
    not retriable. Failed are connections, timeouts, logins, and APIs that the cluster does not have.
    """
    from ottla.client.raw.errors import ClientError, Refused

    return FAILED if isinstance(error, ClientError) and not isinstance(error, Refused) else REFUSED


def print_error(message: str) -> None:
    typer.secho(f"ottla: {message}", fg="red", err=True)


def make_folder(option: str, folder: Path) -> None:
    """Create the directory that an option names; raises `LocalError` if it cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{option}: cannot create the directory {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LocalError(f"{option}: no permission to write to the directory {folder}")


@contextmanager
def signal_handlers(handler: Callable[[int, Any], None], *more: signal.Signals) -> Iterator[None]:
    """Call the handler on SIGTERM, SIGHUP and `more`, except for signals that are ignored, as under nohup."""
    numbers = (signal.SIGTERM, signal.SIGHUP, *more)
    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, known in before.items() if known is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def stop_on_signals(stop: threading.Event, console: Console | None) -> Iterator[None]:
    """Set `stop` on the first signal, with a message on the console if given; a second one raises KeyboardInterrupt."""

    def on_signal(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if console is not None:
            print_stopping(console)

    with signal_handlers(on_signal, signal.SIGINT):
        yield


def print_stopping(console: Console) -> None:
    """Called from a signal handler. If the handler has interrupted another print, this one fails and is skipped."""
    with suppress(RuntimeError):
        if console.is_terminal:
            console.print("Stopping ...", style="dim", highlight=False)
        else:  # rich would repeat the line whose print was interrupted
            console.file.write("Stopping ...\n")
            console.file.flush()


def program() -> str:
    """The command `ottla` as the user can type it: by its name if the PATH leads to it, otherwise as it was typed."""
    typed = Path(sys.argv[0])
    if typed.name != "ottla":
        return f"{shlex.quote(sys.executable)} -m ottla.cli.main"
    found = shutil.which("ottla")
    if found is not None and typed.exists() and Path(found).samefile(typed):
        return "ottla"
    return shlex.quote(str(typed))

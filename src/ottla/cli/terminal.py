"""What the commands share: a console, errors in one line, examples in the help, signal handling."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ottla.base.errors import LocalError, OttlaError

WIDE = 240
"""Where nobody looks, lines are for other programs: names must not be cut to fit a screen."""


def make_console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


@contextmanager
def report_errors() -> Iterator[Console]:
    """What can't be done is told in a line, not in a stack."""
    try:
        yield make_console()
    except OttlaError as error:
        print_error(str(error))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def print_error(words: str) -> None:
    Console(stderr=True).print(f"ottla: {words}", style="red", highlight=False, markup=False, soft_wrap=True)


def make_folder(option: str, folder: Path) -> None:
    """Makes the folder that an option names, before anything else is begun."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{option}: {folder} can't be made a folder: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LocalError(f"{option}: {folder} can't be written to")


@contextmanager
def signal_handlers(handler: Callable[[int, Any], None], *more: signal.Signals) -> Iterator[None]:
    """SIGTERM, the end of the terminal and `more` call the handler, unless they are ignored, as under nohup."""
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
    """Ctrl-C and SIGTERM set `stop`, and are told if there is a console; a second one interrupts even that."""

    def asked(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if console is not None:
            print_stopping(console)

    with signal_handlers(asked, signal.SIGINT):
        yield


def print_stopping(console: Console) -> None:
    """From a signal's handler: what is printed at that very moment goes first, and ours is not worth an error."""
    with suppress(RuntimeError):
        console.print("Stopping ...", style="dim", highlight=False)


def examples(*commands: str) -> str:
    """The end of a command's help: each command is a paragraph of its own, so that it gets a line of its own."""
    return "\n\n".join(("Examples:", *(command.replace("[", r"\[") for command in commands)))

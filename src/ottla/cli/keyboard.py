"""Single keys from a terminal, without Enter."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Keyboard:
    """Keys that were pressed. `read` waits for one, up to a time limit."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def read(self, timeout_s: float) -> str:
        """The next key; an empty string if none was pressed in time. Without a terminal it only waits."""
        watched = [] if self._descriptor is None else [self._descriptor]
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if not ready or self._descriptor is None:
            return ""
        pressed = os.read(self._descriptor, 1)
        if not pressed:
            self._descriptor = None
        return pressed.decode("latin-1")


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """The keyboard of this process, for the main thread; the mode of the terminal is restored at the end.

    A shell changes the mode when the process is stopped (Ctrl-Z). It is set again when the process is continued.
    """
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError):
        yield Keyboard(None)
        return
    except termios.error:
        yield Keyboard(None)
        return

    def on_continued(*_: object) -> None:
        if not _is_in_background(descriptor):
            tty.setcbreak(descriptor)

    tty.setcbreak(descriptor)
    handler = signal.signal(signal.SIGCONT, on_continued)
    try:
        yield Keyboard(descriptor)
    finally:
        signal.signal(signal.SIGCONT, handler)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _is_in_background(descriptor: int) -> bool:
    """Whether another process group has the terminal: the kernel stops a process that changes its mode then."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False

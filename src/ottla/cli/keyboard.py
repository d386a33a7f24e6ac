"""Single keys from a terminal, without Enter."""

from __future__ import annotations

import os
import select
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
    """The keyboard of this process; the mode of the terminal is restored at the end."""
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
    tty.setcbreak(descriptor)
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

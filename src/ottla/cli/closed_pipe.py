"""The end of a command whose output cannot be written. A closed pipe (`| head`): quiet, with exit code 0.

Loads nothing that `ottla broker` does not need.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

DONE = 0
"""The exit code: the reader has read all that it wanted."""


@contextmanager
def quiet_end() -> Iterator[None]:
    """Exit with code `DONE` if the block writes to an output whose reader has closed it."""
    try:
        yield
    except BrokenPipeError:
        if not discard_closed():
            raise  # of another pipe or a connection
        raise SystemExit(DONE) from None


def discard_closed() -> bool:
    """Discard what is in the buffers of closed outputs, which Python would report when it exits.

    For the end of the program: later writes do not fail. Return False if no output is closed.
    """
    closed = [each for each in (sys.stdout, sys.stderr) if _is_closed(each)]
    for each in closed:
        _discard(each)
    return bool(closed)


def discard_output() -> None:
    """Discard what is in the buffer of standard output, and later writes: it cannot be written, as to a full disk."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _is_closed(stream: TextIO | None) -> bool:
    if stream is None:
        return False  # `>&-`
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return False  # not a file, as in tests
    asked = select.poll()
    asked.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in asked.poll(0))

"""What is left to do at the end of an iteration of the event loop, in three phases of which each leads to the next.

    write   what was appended is written; then it can be read, or is acknowledged
    check   requests that wait for records are checked once, not for each append
    send    all responses of a connection are sent together

The phases run one after the other, once: a record is sent to the followers in the iteration in which it arrives.
What a phase adds to itself or to an earlier one runs in the next iteration, after the sockets that are readable
meanwhile. An exception ends the iteration; the other callbacks run in the next one.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

Callback = Callable[[], None]


class Loop(Protocol):
    """The part of an event loop that is needed."""

    def call_soon(self, callback: Callback, /) -> object: ...


class Turn:
    """The callbacks of the current iteration of one event loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._writes: deque[Callback] = deque()
        self._checks: deque[Callback] = deque()
        self._sends: deque[Callback] = deque()
        self._scheduled = False

    def write(self, callback: Callback) -> None:
        self._writes.append(callback)
        self._schedule()

    def check(self, callback: Callback) -> None:
        self._checks.append(callback)
        self._schedule()

    def send(self, callback: Callback) -> None:
        self._sends.append(callback)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        try:
            for phase in (self._writes, self._checks, self._sends):
                for _ in range(len(phase)):
                    phase.popleft()()
        finally:
            self._scheduled = False
            if self._writes or self._checks or self._sends:
                self._schedule()

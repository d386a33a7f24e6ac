"""When the recurring tasks come again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import structlog

from ottla.base.promise import Promise
from ottla.broker.housekeeping import Housekeeping


class Timer:
    def cancel(self) -> None:
        pass


class Loop:
    """Keeps what is to be called, with its delay."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, task: Callable[[], None]) -> Timer:
        self.due.append((seconds, task))
        return Timer()


class Settings:
    def long(self, name: str) -> int:
        return 600_000


class Clock:
    def now_ms(self) -> int:
        return 0


class Replicas:
    def check_isr(self) -> None:
        pass


class Dirs:
    """Directories in which so many deleted files are found, one number for each look."""

    def __init__(self, found: list[int | Exception]) -> None:
        self.found = found

    def checkpoint(self) -> None:
        pass

    def remove_deleted(self, now_ms: int) -> Promise[int]:
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return Promise.kept(found)


def removal_delays(found: list[int | Exception]) -> list[float]:
    """After how many seconds deleted files are looked for, each time."""
    loop, rounds = Loop(), len(found)
    parts = cast("Any", (loop, Clock(), Settings(), Dirs(found), None, Replicas(), structlog.get_logger()))
    Housekeeping(*parts).start()
    delay, look = next((seconds, task) for seconds, task in loop.due[1:] if seconds == 1.0)
    delays = [delay]
    for _ in range(rounds):
        look()
        delays.append(loop.due[-1][0])
    return delays


def test_deleted_files_are_looked_for_each_second() -> None:
    assert removal_delays([0, 0]) == [1.0, 1.0, 1.0]


def test_a_removal_that_fails_is_repeated() -> None:
    assert removal_delays([10, OSError("disk"), 3]) == [1.0, 1.0, 1.0, 1.0]


def test_the_first_checkpoint_is_written_soon_after_the_start() -> None:
    loop, dirs = Loop(), Dirs([])
    written = 0

    def checkpoint() -> None:
        nonlocal written
        written += 1

    dirs.checkpoint = checkpoint  # type: ignore[method-assign]
    parts = cast("Any", (loop, Clock(), Settings(), dirs, None, Replicas(), structlog.get_logger()))
    Housekeeping(*parts).start()
    soon = [task for seconds, task in loop.due if seconds == 3.0]
    assert len(soon) == 1
    soon[0]()
    assert written == 1
    assert loop.due[-1][0] == 600.0

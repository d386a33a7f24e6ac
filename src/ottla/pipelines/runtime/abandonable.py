"""Blocking calls that are abandoned as soon as the run is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.pipelines.java.process import Stopped

CHECK_INTERVAL_S: Final = 0.1
T = TypeVar("T")


def until_stopped(work: Callable[[], T], stop: threading.Event) -> T:
    """The result of a call in a separate thread. Raise its error, or `Stopped` as soon as `stop` is set.

    After `Stopped` the call continues in its thread, which does not keep the process alive: a connection attempt cannot
    be interrupted.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(CHECK_INTERVAL_S)
        if stop.is_set() and thread.is_alive():
            raise Stopped
    if errors:
        raise errors[0]
    return results[0]

"""Waiting for a condition, never for a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

TIMEOUT_S = 30.0
_LOOK_EVERY_S = 0.02


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Returns as soon as the condition holds; fails with what was waited for when it never does."""
    pause = threading.Event()
    for _ in range(int(timeout_s / _LOOK_EVERY_S)):
        if condition():
            return
        pause.wait(_LOOK_EVERY_S)
    raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")

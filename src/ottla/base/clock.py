"""Time as a port: everything that needs the time is given a Clock, so that a simulation can be its master."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is measured."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as stored in records."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never decreases, for timeouts."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251 - this is the adapter

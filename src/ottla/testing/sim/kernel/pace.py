"""How fast a simulated host works: how long an event takes in its event loops, and work in its executors.

Simulated code takes no time by itself, so that a node has always handled everything before the next packet arrives.
With another pace, packets and timers wait for a busy event loop, and the completion of a write is handled long after
the write. This leads to orders of events that the even pace never has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.base.rng import Random


class Pace(NamedTuple):
    """The times of one host. The defaults are the even pace."""

    name: str
    busy_ms_max: float = 0.0
    """An event occupies the event loop for up to that long."""
    stall_chance: float = 0.0
    stall_ms_max: float = 0.0
    """How often an event occupies the event loop longer, and how much longer."""
    work_ms: tuple[float, float] = (0.05, 0.6)
    """How long work takes in an executor."""
    notice_ms_max: float = 0.0
    """The completion of work reaches the event loop up to that long after the work."""

    def event_us(self, rng: Random) -> int:
        """How long the event loop is busy with one event."""
        busy_ms = rng.uniform(0, self.busy_ms_max)
        if rng.random() < self.stall_chance:
            busy_ms += rng.uniform(0, self.stall_ms_max)
        return int(busy_ms * 1000)


EVEN: Final = Pace("even")
PACES: Final = (
    EVEN,
    Pace("busy", busy_ms_max=0.2),
    Pace("stalling", busy_ms_max=0.05, stall_chance=0.005, stall_ms_max=60.0),
    Pace("slow disk", work_ms=(0.5, 15.0)),
    Pace("late completions", work_ms=(0.01, 0.3), notice_ms_max=8.0),
)

"""Limits of the bytes per second that replicas copy: throttled replicas (KIP-73), and moves between log directories.

A limit holds for a broker, once for what its leaders send and once for what its followers fetch. It applies to the
replicas that are named in the topic's settings `leader.replication.throttled.replicas` and
`follower.replication.throttled.replicas` with the id of this broker. Replicas that are in sync are never delayed, so
that a limit does not delay acknowledgements; their bytes count.

Concurrency: the event loop only.
"""

from __future__ import annotations

from typing import Final

from ottla.base.clock import Clock
from ottla.security.quotas.rate import SimpleRate

UNLIMITED: Final = 2**63 - 1
_WAIT_S_MIN: Final = 0.02
_WAIT_S_MAX: Final = 1.0


class ReplicationQuota:
    """The limit of one kind of copying, and its use on this broker."""

    __slots__ = ("_bound", "_clock", "_rate", "limited")

    def __init__(self, samples: int, window_ms: int, clock: Clock) -> None:
        self._rate = SimpleRate(samples, window_ms)
        self._clock = clock
        self._bound = UNLIMITED
        self.limited = False
        """Whether there is a limit. Without one nothing needs to be counted."""

    def set_bound(self, bytes_per_s: int) -> None:
        """Set the limit; `UNLIMITED` removes it."""
        self._bound = bytes_per_s
        self.limited = bytes_per_s < UNLIMITED

    def record(self, size: int) -> None:
        """Count bytes that were copied."""
        self._rate.record(size, self._now_ms())

    @property
    def exceeded(self) -> bool:
        """Whether no more bytes may be copied now."""
        return self.limited and self._rate.measure(self._now_ms()).rate > self._bound

    def wait_s(self) -> float:
        """The time after which the use is to be compared with the limit again."""
        measured = self._rate.measure(self._now_ms())
        if not self._bound:
            return _WAIT_S_MAX
        excess_s = (measured.rate / self._bound - 1) * measured.window_ms / 1000
        return min(max(excess_s, _WAIT_S_MIN), _WAIT_S_MAX)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def is_throttled(replicas: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether the value of a setting of throttled replicas names the replica of a partition on a broker."""
    return bool(replicas) and (replicas == ("*",) or f"{partition}:{broker_id}" in replicas)

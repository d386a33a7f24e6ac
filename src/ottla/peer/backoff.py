"""Reconnect back-off: exponential with jitter, as Kafka's `reconnect.backoff.ms` and `reconnect.backoff.max.ms`."""

from __future__ import annotations

from typing import Final

from ottla.base.rng import Random

_JITTER: Final = 0.2
_ATTEMPTS_MAX: Final = 32
"""More attempts than any back-off needs to reach its maximum; it keeps the power finite."""


class Backoff:
    """The delays between the connection attempts to one node."""

    __slots__ = ("_failures", "_first_s", "_max_s", "_rng")

    def __init__(self, first_s: float, max_s: float, rng: Random) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._rng = rng
        self._failures = 0

    def failed(self) -> float:
        """Record a failure, and return the seconds to wait before the next attempt."""
        delay_s = self._first_s * 2.0 ** min(self._failures, _ATTEMPTS_MAX)
        self._failures += 1
        return min(self._max_s, delay_s * self._rng.uniform(1 - _JITTER, 1 + _JITTER))

    def succeeded(self) -> None:
        """Start again with the first delay."""
        self._failures = 0

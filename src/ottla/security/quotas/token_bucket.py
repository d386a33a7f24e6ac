"""A token bucket: a limit that allows bursts, for changes of metadata (KIP-599).

The bucket is filled at `rate` tokens per second up to the burst, `burst_s` seconds of tokens, and is full at first.
A request is accepted while the bucket is not below zero, and may take it below: a large request is not refused for
ever. Times are milliseconds of one clock that does not decrease.
"""

from __future__ import annotations

import math


class TokenBucket:
    """The tokens of one client."""

    __slots__ = ("_burst_s", "_rate", "_tokens", "_updated_ms")

    def __init__(self, rate: float, burst_s: float, now_ms: int) -> None:
        self._rate = rate
        self._burst_s = burst_s
        self._tokens = rate * burst_s
        self._updated_ms = now_ms

    def set_rate(self, rate: float) -> None:
        """Fill the bucket at another rate from now on."""
        self._rate = rate

    def tokens(self, now_ms: int) -> float:
        """The tokens in the bucket; negative if it is exhausted."""
        elapsed_s = (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._rate * self._burst_s, self._tokens + self._rate * elapsed_s)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, now_ms: int) -> None:
        """Remove tokens, also below zero."""
        self._tokens = self.tokens(now_ms) - count

    def wait_ms(self, now_ms: int) -> int:
        """The time until the bucket is not below zero; 0 if it is not."""
        tokens = self.tokens(now_ms)
        return 0 if tokens >= 0 else max(1, math.floor(-tokens / self._rate * 1000 + 0.5))

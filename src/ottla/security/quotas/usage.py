"""What clients use of one kind of quota: rates of bytes or of time, and buckets of changes.

State is kept for each holder of a limit (`ottla.security.quotas.limits`) while it is used, and removed after an hour
without use. A changed quota applies to the usage so far.

Concurrency: one owner. Times are milliseconds of one clock that does not decrease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.security.quotas.limits import ClientLimits, Holder
from ottla.security.quotas.rate import Rate, throttle_ms
from ottla.security.quotas.token_bucket import TokenBucket

_UNUSED_MS: Final = 3_600_000
S = TypeVar("S")


class Windows(NamedTuple):
    """How rates are measured: `quota.window.num` and `quota.window.size.seconds`."""

    samples: int = 11
    window_ms: int = 1000


class _Entry(Generic[S]):
    __slots__ = ("state", "throttled_ms", "throttles", "used_ms")

    def __init__(self, state: S) -> None:
        self.state = state
        self.used_ms = 0
        self.throttles = 0
        self.throttled_ms = 0


class Throttled(NamedTuple):
    """How often and for how long the holder of a limit was throttled, and its state."""

    holder: Holder
    throttles: int
    throttled_ms: int
    value: float
    """The rate, or the tokens of a bucket."""


class _Usage(Generic[S]):
    """The state of each holder."""

    def __init__(self, limits: ClientLimits, windows: Windows, new: Callable[[float, int], S]) -> None:
        """`new` creates the state of a holder from its bound and the time."""
        self.limits = limits
        self._windows = windows
        self._new = new
        self._entries: dict[Holder, _Entry[S]] = {}
        self._swept_ms = 0

    def __bool__(self) -> bool:
        return bool(self.limits)

    def _entry(self, holder: Holder, bound: float, now_ms: int) -> _Entry[S]:
        entry = self._entries.get(holder)
        if entry is None:
            if now_ms - self._swept_ms > _UNUSED_MS:
                self._sweep(now_ms)
            entry = self._entries[holder] = _Entry(self._new(bound, now_ms))
        entry.used_ms = now_ms
        return entry

    def _sweep(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        unused = [key for key, each in self._entries.items() if now_ms - each.used_ms > _UNUSED_MS]
        for key in unused:
            del self._entries[key]


class RateUsage(_Usage[Rate]):
    """Rates of clients; a client above its bound is throttled, for at most `throttle_max_ms` if that is set."""

    def __init__(self, limits: ClientLimits, windows: Windows, *, throttle_max_ms: int | None = None) -> None:
        super().__init__(limits, windows, lambda _, __: Rate(*windows))
        self._throttle_max_ms = throttle_max_ms

    def charge(self, user: str, client_id: str, value: float, now_ms: int, *, refund: bool = False) -> int:
        """Count what a client has used; the milliseconds for which it is throttled, or 0.

        With `refund` the value is not counted if the client is throttled.
        """
        limit = self.limits.of(user, client_id)
        if limit is None:
            return 0
        entry = self._entry(limit.holder, limit.bound, now_ms)
        entry.state.record(value, now_ms)
        wait_ms = throttle_ms(entry.state.measure(now_ms), limit.bound)
        if not wait_ms:
            return 0
        if self._throttle_max_ms is not None:
            wait_ms = min(wait_ms, self._throttle_max_ms)
        if refund:
            entry.state.record(-value, now_ms)
        entry.throttles += 1
        entry.throttled_ms += wait_ms
        return wait_ms

    def window_bytes(self, user: str, client_id: str) -> int | None:
        """The most that one request may use: more would always be throttled. None if nothing is limited."""
        limit = self.limits.of(user, client_id)
        if limit is None:
            return None
        samples, window_ms = self._windows
        return int(limit.bound * (samples - 1) * window_ms / 1000)

    def throttled(self, now_ms: int) -> Iterator[Throttled]:
        """All holders, for metrics."""
        for holder, entry in self._entries.items():
            rate = entry.state.measure(now_ms).rate
            yield Throttled(holder, entry.throttles, entry.throttled_ms, rate)


class BucketUsage(_Usage[TokenBucket]):
    """Buckets of clients."""

    def __init__(self, limits: ClientLimits, windows: Windows) -> None:
        burst_s = windows.samples * windows.window_ms / 1000
        super().__init__(limits, windows, lambda bound, now_ms: TokenBucket(bound, burst_s, now_ms))

    def charge(self, user: str, client_id: str, count: float, now_ms: int, *, strict: bool) -> int:
        """Take tokens of a client; the milliseconds until its bucket is not below zero.

        If `strict`, an exhausted bucket keeps its tokens: the request must be refused if the result is not 0. Otherwise
        the tokens are always taken.
        """
        limit = self.limits.of(user, client_id)
        if limit is None:
            return 0
        entry = self._entry(limit.holder, limit.bound, now_ms)
        bucket = entry.state
        bucket.set_rate(limit.bound)
        wait_ms = bucket.wait_ms(now_ms) if strict else 0
        if not wait_ms:
            bucket.take(count, now_ms)
            wait_ms = 0 if strict else bucket.wait_ms(now_ms)
        if wait_ms:
            entry.throttles += 1
            entry.throttled_ms += wait_ms
        return wait_ms

    def throttled(self, now_ms: int) -> Iterator[Throttled]:
        """All holders, for metrics."""
        for holder, entry in self._entries.items():
            yield Throttled(holder, entry.throttles, entry.throttled_ms, entry.state.tokens(now_ms))

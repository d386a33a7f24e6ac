"""Times of requests by API, from their last byte received to their response sent.

Each API has a histogram with four buckets per power of two of microseconds, so that a quantile is at most 19 % too
high. Quantiles are over the last minute or two: two windows of a minute each. Counts and sums are over all time.

`ResponseTimer` belongs to one connection. Responses are sent in the order of the requests, so a queue of their starts
suffices: the connection adds one entry for each slot of its outbox, and the outbox reports each slot that it sends.
Without an endpoint for metrics no connection has a timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
WINDOW_S: Final = 60.0
_BUCKETS: Final = 160


def bucket_of(microseconds: int) -> int:
    """The bucket of a time: the power of two and the next two bits."""
    bits = microseconds.bit_length()
    if bits < 3:
        return microseconds
    return min(_BUCKETS - 1, (bits << 2) | ((microseconds >> (bits - 3)) & 3))


def upper_bound(bucket: int) -> int:
    """The smallest time, in microseconds, that is above a bucket."""
    if bucket < 4:
        return bucket + 1
    bits, part = bucket >> 2, bucket & 3
    return (5 + part) << (bits - 3)


class _Api:
    __slots__ = ("count", "current", "previous", "sum_s")

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0
        self.current = [0] * _BUCKETS
        self.previous = [0] * _BUCKETS


class RequestTimes:
    """The times of all connections of a broker."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._apis: dict[int, _Api] = {}
        self._window_started = clock()

    def record(self, api_key: int, seconds: float) -> None:
        api = self._apis.get(api_key)
        if api is None:
            api = self._apis[api_key] = _Api()
        api.count += 1
        api.sum_s += seconds
        api.current[bucket_of(int(seconds * 1_000_000))] += 1

    def turn(self) -> None:
        """Begin a new window if the current one is complete; called before the times are read."""
        now = self.clock()
        elapsed = now - self._window_started
        if elapsed < WINDOW_S:
            return
        self._window_started = now
        for api in self._apis.values():
            api.previous = api.current if elapsed < 2 * WINDOW_S else [0] * _BUCKETS
            api.current = [0] * _BUCKETS

    def __iter__(self) -> Iterator[tuple[int, int, float, list[tuple[float, float]]]]:
        """API key, count, sum in milliseconds, and the quantiles in milliseconds; none without recent requests."""
        for api_key, api in list(self._apis.items()):
            buckets = [one + other for one, other in zip(api.current, api.previous, strict=True)]
            yield api_key, api.count, api.sum_s * 1000, _quantiles(buckets)


def _quantiles(buckets: list[int]) -> list[tuple[float, float]]:
    total = sum(buckets)
    if not total:
        return []
    found: list[tuple[float, float]] = []
    seen, wanted = 0, list(QUANTILES)
    for bucket, count in enumerate(buckets):
        seen += count
        while wanted and seen >= wanted[0] * total:
            found.append((wanted.pop(0), upper_bound(bucket) / 1000))
    return found


class ResponseTimer:
    """The requests of one connection that have no response yet."""

    __slots__ = ("_started", "_times")

    def __init__(self, times: RequestTimes) -> None:
        self._times = times
        self._started: deque[tuple[int, float]] = deque()

    def received(self, api_key: int) -> None:
        """A request gets the next slot."""
        self._started.append((api_key, self._times.clock()))

    def sent(self) -> None:
        """The next slot is being sent."""
        if self._started:
            api_key, started = self._started.popleft()
            self._times.record(api_key, self._times.clock() - started)

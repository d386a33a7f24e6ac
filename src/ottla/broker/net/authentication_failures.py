"""Delays of failed authentications, by address.

A failure is reported to the client after `connection.failed.authentication.delay.ms`, as in Kafka. The delay doubles
after every ten failures of an address within a minute, up to ten seconds; clients that authenticate are not delayed. An
address with many failures that wait gets no further response: its connections are closed at once.
"""

from __future__ import annotations

from typing import Final

_WINDOW_SECONDS: Final = 60.0
_FAILURES_UNTIL_DOUBLED: Final = 10
_DELAY_SECONDS_MIN: Final = 0.1
"""The delay that is doubled if the configured one is shorter."""
_DELAY_SECONDS_MAX: Final = 10.0
_WAITING_MAX: Final = 100
_ADDRESSES_MAX: Final = 10_000


class _Failures:
    __slots__ = ("count", "since", "waiting")

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = 0
        self.waiting = 0


class AuthenticationFailures:
    """The failures of the last minute. Concurrency: the event loop only."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds
        self._by_ip: dict[str, _Failures] = {}

    def failed(self, ip: str, now: float) -> float | None:
        """Count a failure; return the delay of its response, None if the connection is closed at once.

        `released` must be called after the delay.
        """
        failures = self._by_ip.get(ip)
        if failures is None:
            if len(self._by_ip) >= _ADDRESSES_MAX:
                del self._by_ip[next(iter(self._by_ip))]
            failures = self._by_ip[ip] = _Failures(now)
        elif now - failures.since > _WINDOW_SECONDS:
            failures.since, failures.count = now, 0
        failures.count += 1
        if failures.waiting >= _WAITING_MAX:
            return None
        failures.waiting += 1
        doubled = (failures.count - 1) // _FAILURES_UNTIL_DOUBLED
        if not doubled:
            return self._delay_seconds
        base = max(self._delay_seconds, _DELAY_SECONDS_MIN)
        return max(self._delay_seconds, min(_DELAY_SECONDS_MAX, base * 2.0 ** min(doubled, 16)))

    def released(self, ip: str) -> None:
        """The response of a failure was sent, or its connection is closed."""
        failures = self._by_ip.get(ip)
        if failures is not None and failures.waiting:
            failures.waiting -= 1

"""Rates of new connections: of the broker, of each listener, and of each address (KIP-612).

A connection above the rate of the broker or of its listener is accepted, and the listener then accepts no other one
for some time. A connection above the rate of its address is refused and not counted. Waits are at most one window, so
that no client is kept away for longer by a burst of others.

Concurrency: one owner. Times are milliseconds of one clock that does not decrease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.security.quotas.limits import AddressLimits
from ottla.security.quotas.rate import Rate, throttle_ms
from ottla.security.quotas.usage import Windows

UNLIMITED: Final = 2**31 - 1
_ADDRESSES_MAX: Final = 10_000


class Accepted(NamedTuple):
    """What happens to a new connection, and to those after it."""

    refuse_ms: int = 0
    """Close the connection, after this time; 0: keep it."""
    pause_ms: int = 0
    """Accept no connection on the listener for this time."""


ADMITTED: Final = Accepted()


class ConnectionRates:
    """The measured rates of one broker; False if nothing is limited."""

    def __init__(self, windows: Windows, protected: str) -> None:
        """`protected` is the listener of brokers: the rate of the broker does not include it."""
        self._windows = windows
        self._protected = protected
        self._broker_bound = UNLIMITED
        self._listener_bounds: Mapping[str, int] = {}
        self._addresses = AddressLimits({})
        self._broker = Rate(*windows)
        self._listeners: dict[str, Rate] = {}
        self._rates: dict[str, Rate] = {}
        self.refused = 0
        """Connections that were refused because of the rate of their address."""
        self.paused_ms = 0
        """The time for which listeners accepted no connections."""

    def __bool__(self) -> bool:
        bounds = (self._broker_bound, *self._listener_bounds.values())
        return bool(self._addresses) or min(bounds) < UNLIMITED

    def set_rates(self, broker: int, listeners: Mapping[str, int]) -> None:
        """Set the rates of the broker and of its listeners, by their names."""
        self._broker_bound = broker
        self._listener_bounds = dict(listeners)

    def set_addresses(self, limits: AddressLimits) -> None:
        """Set the rates of addresses."""
        self._addresses = limits

    def accept(self, listener: str, ip: str, now_ms: int) -> Accepted:
        """Count a new connection."""
        refuse_ms = self._refuse_ms(ip, now_ms)
        if refuse_ms:
            self.refused += 1
            return Accepted(refuse_ms=refuse_ms)
        pause_ms = 0
        if listener != self._protected or len(self._listener_bounds) == 1:
            pause_ms = self._charge(self._broker, self._broker_bound, now_ms)
        rate = self._listeners.setdefault(listener, Rate(*self._windows))
        bound = self._listener_bounds.get(listener, UNLIMITED)
        pause_ms = max(pause_ms, self._charge(rate, bound, now_ms))
        self.paused_ms += pause_ms
        return Accepted(pause_ms=pause_ms) if pause_ms else ADMITTED

    def _refuse_ms(self, ip: str, now_ms: int) -> int:
        bound = self._addresses.of(ip)
        if bound is None:
            return 0
        rate = self._rates.get(ip)
        if rate is None:
            if len(self._rates) >= _ADDRESSES_MAX:
                self._forget_unused(now_ms)
            rate = self._rates[ip] = Rate(*self._windows)
        wait_ms = self._charge(rate, bound, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def _forget_unused(self, now_ms: int) -> None:
        unused = [ip for ip, rate in self._rates.items() if not rate.measure(now_ms).rate]
        for ip in unused or list(self._rates)[: _ADDRESSES_MAX // 2]:
            del self._rates[ip]

    def _charge(self, rate: Rate, bound: float, now_ms: int) -> int:
        rate.record(1, now_ms)
        return min(throttle_ms(rate.measure(now_ms), bound), self._windows.window_ms)

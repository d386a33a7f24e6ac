"""Confirmation of heartbeats by commits: a controller without a majority of the voters acknowledges none.

An acknowledged heartbeat extends the lease of a broker (decision 20). A controller that was cut off from other voters
does not notice at once that it has been replaced. The response to a heartbeat therefore waits for the commit of a
record that is at most `interval` older than the heartbeat; if there is none, the heartbeat appends a NoOpRecord
(`metadata.max.idle.interval.ms`).

The next controller relies on this. A voter that has a new record resets its fetch timeout, and after that refuses its
vote to others until the timeout has passed. A controller that is elected after the silence of a fetch timeout therefore
knows that no heartbeat of the last `fetch timeout - interval` was acknowledged: `start` returns this time. It returns
0 after an election on other grounds (a lost connection, a resignation), and for the only voter.

Pure: times are arguments, in seconds of a monotonic clock.
"""

from __future__ import annotations


class Confirmation:
    """The age of the newest NoOpRecord of one leadership."""

    def __init__(self, interval: float, fetch_timeout: float) -> None:
        """An interval of 0 disables both the records and their use."""
        self._interval = interval
        self._fetch_timeout = fetch_timeout
        self._is_needed = False
        self._appended_at: float | None = None

    def start(self, silence: float, *, has_other_voters: bool) -> float:
        """Begin a leadership; how long no heartbeat has been acknowledged before it."""
        self._is_needed = has_other_voters and self._interval > 0
        self._appended_at = None
        if not self._is_needed:
            return 0.0
        return max(0.0, min(silence, self._fetch_timeout) - self._interval)

    def needs_record(self, now: float) -> bool:
        """Whether a heartbeat that appends nothing else appends a NoOpRecord, which it then does."""
        if not self._is_needed:
            return False
        if self._appended_at is not None and now - self._appended_at < self._interval:
            return False
        self._appended_at = now
        return True

"""Timeouts of the quorum: Kafka's `controller.quorum.*` settings."""

from __future__ import annotations

from typing import Final, NamedTuple


class Timeouts(NamedTuple):
    """All in milliseconds."""

    election_ms: int = 1000
    fetch_ms: int = 2000
    election_backoff_max_ms: int = 1000
    fetch_wait_ms: int = 500
    retry_backoff_ms: int = 20


DEFAULT_TIMEOUTS: Final = Timeouts()

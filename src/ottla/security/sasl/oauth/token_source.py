"""The token of a client: fetched when it is needed, and kept for most of its life.

Concurrency: any thread.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import Final

_KEPT_SHARE: Final = 0.8


class TokenSource:
    """The newest token of one endpoint. `fetch` returns a new one; `now_s` returns the seconds since 1970."""

    def __init__(self, fetch: Callable[[], str], now_s: Callable[[], float]) -> None:
        self._fetch = fetch
        self._now_s = now_s
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def get(self) -> str:
        """A token that is valid for a while; fetches one if necessary."""
        with self._lock:
            now = self._now_s()
            if now >= self._renew_at:
                self._token = self._fetch()
                self._renew_at = now + _KEPT_SHARE * max(0.0, _expiry(self._token) - now)
            return self._token


def _expiry(token: str) -> float:
    """The time at which a token expires; 0 if it does not contain one, so that it is not kept."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0

"""The key set of the identity provider: fetched beside the event loop, kept, refreshed.

The set is fetched at the first use and again after `refresh_s`. A token with an unknown key id causes a fetch too,
because the provider may have new keys, but at most one in `_UNKNOWN_INTERVAL_S`, whatever the number of ids. If a
fetch fails the next one waits for a back-off, and the set before stays effective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.clock import Clock
from ottla.base.executor import Executor
from ottla.base.promise import Promise
from ottla.security.sasl.oauth.jwks import KeySet, parse_jwks

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_UNKNOWN_INTERVAL_S: Final = 10.0


class KeySettings(NamedTuple):
    """Where the key set is, and when it is fetched."""

    url: str
    refresh_s: float = 3600.0
    backoff_s: float = 0.1
    backoff_max_s: float = 10.0


class KeySource:
    """The newest key set. Concurrency: the event loop only; `fetch` runs in the executor."""

    def __init__(
        self,
        settings: KeySettings,
        fetch: Callable[[str], bytes],
        executor: Executor,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings = settings
        self._fetch = fetch
        self._executor = executor
        self._clock = clock
        self._log = log
        self._keys: KeySet = {}
        self._refresh_at = 0.0
        self._unknown_at = 0.0
        self._failures = 0
        self._waiting: list[Promise[KeySet]] | None = None

    def keys(self, key_id: str | None) -> Promise[KeySet]:
        """The key set, with the key `key_id` if the provider has it."""
        now = self._clock.monotonic()
        missing = key_id is not None and key_id not in self._keys
        if self._waiting is None and (now >= self._refresh_at or (missing and now >= self._unknown_at)):
            self._start(now)
        if self._waiting is None or (not missing and self._keys):
            return Promise.kept(self._keys)
        promise: Promise[KeySet] = Promise()
        self._waiting.append(promise)
        return promise

    def _start(self, now: float) -> None:
        self._waiting = []
        self._unknown_at = now + _UNKNOWN_INTERVAL_S
        fetched: list[KeySet] = []

        def work() -> None:
            fetched.append(parse_jwks(self._fetch(self._settings.url)))

        def done(error: BaseException | None) -> None:
            self._finish(fetched[0] if error is None else None, error)

        self._executor.submit(work, done)

    def _finish(self, keys: KeySet | None, error: BaseException | None) -> None:
        now, settings = self._clock.monotonic(), self._settings
        if keys is None:
            delay = min(settings.backoff_max_s, settings.backoff_s * 2.0 ** min(self._failures, 30))
            self._failures += 1
            self._refresh_at = now + delay
            self._log.warning("the keys of tokens could not be fetched", url=settings.url, reason=str(error))
        else:
            self._keys = keys
            self._failures = 0
            self._refresh_at = now + settings.refresh_s
        waiting, self._waiting = self._waiting or [], None
        for promise in waiting:
            promise.keep(self._keys)

"""Periodic tasks of a broker, each with its own interval: retention, flushes, checkpoints, checks of the ISR.

The intervals are Kafka's settings; deleted files are removed once a second. The next run of a task is scheduled when
the last one is complete. A task that fails is logged and repeated. The cleaner has its own schedule
(`storage.cleaning.cleaner`); the node starts and stops it.

Concurrency: the event loop; what touches the disk runs in the executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import InvariantViolation

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.base.clock import Clock
    from ottla.base.promise import Promise
    from ottla.config.dynamic import DynamicConfig
    from ottla.replication.replicas import Replicas
    from ottla.storage.commit.group_commit import GroupCommit
    from ottla.storage.log_dirs import LogDirs

_FIRST_CHECKPOINT_MS: Final = 3000
"""How long after the start the first checkpoint is written. It covers the records that were recovered: a process that
is killed repeatedly does not recover the same records each time."""
_REMOVAL_MS: Final = 1000
_FLUSH_CHECK_MS: Final = 1000
_INTERVAL_MS_MAX: Final = 24 * 60 * 60 * 1000


class Housekeeping:
    """The periodic tasks of one broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        settings: DynamicConfig,
        log_dirs: LogDirs,
        group_commit: GroupCommit,
        replicas: Replicas,
        log: FilteringBoundLogger,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._settings = settings
        self._log_dirs = log_dirs
        self._group_commit = group_commit
        self._replicas = replicas
        self._log = log
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False

    def start(self) -> None:
        setting = self._settings.long
        self._repeat("retention", lambda: setting("log.retention.check.interval.ms"), self._retain)
        self._repeat("removal", lambda: _REMOVAL_MS, self._remove)
        self._repeat("flush", self._flush_interval_ms, self._flush)
        self._repeat(
            "checkpoint",
            lambda: setting("log.flush.offset.checkpoint.interval.ms"),
            self._log_dirs.checkpoint,
            first_ms=_FIRST_CHECKPOINT_MS,
        )
        self._repeat(
            "producers",
            lambda: setting("producer.id.expiration.check.interval.ms"),
            lambda: self._log_dirs.expire_producers(self._clock.now_ms()),
        )
        self._repeat("isr", lambda: setting("replica.lag.time.max.ms") // 2, self._replicas.check_isr)

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _repeat(
        self,
        name: str,
        interval_ms: Callable[[], int],
        task: Callable[[], Promise[Any] | None],
        first_ms: int = _INTERVAL_MS_MAX,
    ) -> None:
        """Run a task after each interval, for the first time after `first_ms` if that is shorter."""

        def run() -> None:
            try:
                promise = task()
            except InvariantViolation:
                raise
            except Exception:  # noqa: BLE001 - it is repeated, and the others continue
                self._log.exception("task failed", task=name)
                promise = None
            if promise is None:
                schedule()
            else:
                promise.when_done(done)

        def done(_: Any, error: BaseException | None) -> None:
            if error is not None:
                self._log.error("task failed", task=name, exc_info=error)
            schedule()

        def schedule(delay_ms_max: int = _INTERVAL_MS_MAX) -> None:
            if self._stopped:
                return
            seconds = min(interval_ms(), delay_ms_max) / 1000
            self._timers[name] = self._loop.call_later(seconds, run)

        schedule(first_ms)

    def _retain(self) -> Promise[int]:
        return self._log_dirs.enforce_retention(self._clock.now_ms())

    def _remove(self) -> Promise[int]:
        return self._log_dirs.remove_deleted(self._clock.now_ms())

    def _flush_interval_ms(self) -> int:
        return min(self._settings.long("log.flush.scheduler.interval.ms"), _FLUSH_CHECK_MS)

    def _flush(self) -> None:
        for log in self._log_dirs.flush_due(self._clock.now_ms()):
            self._group_commit.flush(log)

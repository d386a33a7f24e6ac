"""The log cleaner: finds the compacted log with the most dirty bytes and cleans it in the background.

One cleaning runs at a time. Its steps (`cleaner_job`) are small and run in the executor, one after the other.
Between two steps the cleaner waits as long as `log.cleaner.io.max.bytes.per.second` requires, and never less
than the step itself took, so that it uses at most half a core. When there is nothing to clean it checks again
after `log.cleaner.backoff.ms`.

A log with damaged segments is not cleaned until the next start, as in Kafka: cleaning it could lose records that
can still be read. A log that changed during a cleaning is cleaned later. A full disk ends the cleaning and does
not take the directory offline: only files of the cleaning could not be written. Any other error of the disk takes
the directory offline.

Files: `cleaner-offset-checkpoint` in each log directory, the first dirty offset of each compacted log,
written after each cleaning. It is only a hint: without it a log is cleaned from its start.

Concurrency: the event loop owns the cleaner; only `CleanerJob.steps` runs elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, OttlaError, StorageFault
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.ids import TopicPartition
from ottla.storage import checkpoints
from ottla.storage.cleaning.cleaner_filter import LastBatch
from ottla.storage.cleaning.cleaner_job import CleanerJob, CleaningAborted, Step, Swap
from ottla.storage.cleaning.cleaner_map import OffsetMap
from ottla.storage.cleaning.compaction import Dirt, LogFacts, SegmentFacts, filthiest, measure_dirt
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from ottla.storage.producers.producer_state import ProducerState

_STEP_BYTES_MAX: Final = 128 * 1024
_NO_LAG: Final = 2**63 - 1
_JOB_WAIT_SECONDS: Final = 0.02
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_log = structlog.get_logger(__name__)


class CleanableLog(Protocol):
    """What the cleaner needs of a log."""

    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def directory(self) -> str: ...
    @property
    def log_dir(self) -> str: ...
    @property
    def config(self) -> LogConfig: ...
    @property
    def offline(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def job_beside_writes(self) -> bool: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def segments(self) -> Iterable[Segment]: ...
    @property
    def producers(self) -> ProducerState: ...

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]: ...

    def replace_segments(self, old: list[Segment], new: Segment, now_ms: int) -> None:
        """Put a complete and synced `.cleaned` segment instead of neighbouring sealed ones, durably."""
        ...


class CleanerConfig(NamedTuple):
    """The `log.cleaner.*` settings."""

    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    io_buffer_bytes: int = 512 * 1024
    load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000


class Cleaner:
    def __init__(
        self,
        disk: Disk,
        logs: Callable[[], Iterable[CleanableLog]],
        config: CleanerConfig,
        *,
        clock: Clock,
        executor: Executor,
        later: Callable[[float, Callable[[], None]], object],
        on_fault: Callable[[StorageFault], None],
    ) -> None:
        """`later(seconds, call)` is the loop's timer; `on_fault` takes a failed directory offline."""
        self.config = config
        self._disk = disk
        self._logs = logs
        self._clock = clock
        self._executor = executor
        self._later = later
        self._on_fault = on_fault
        self._first_dirty: dict[str, dict[TopicPartition, int]] = {}
        self._uncleanable: set[str] = set()
        self._running = False
        self._current: _Cleaning | None = None
        self._looks = 0

    def start(self) -> None:
        """Look for work until `stop`."""
        if not self._running:
            self._running = True
            self._look(self._looks)

    def stop(self) -> None:
        """Start nothing new; a step that is running finishes."""
        self._running = False

    def reconfigure(self, config: CleanerConfig) -> None:
        """Settings changed while running: they hold from the next step on."""
        self.config = config
        if self._running and self._current is None:
            self._look_after(0)

    @property
    def cleaning(self) -> TopicPartition | None:
        """The log being cleaned."""
        return self._current.log.topic_partition if self._current else None

    def truncated(self, log: CleanableLog, offset: int) -> None:
        """The log was truncated at `offset`: what is appended there is dirty."""
        known = self._first_dirty_of(log.log_dir)
        if known.get(log.topic_partition, offset) > offset:
            known[log.topic_partition] = offset
            self._write_checkpoint(log.log_dir)

    def deleted(self, log: CleanableLog) -> None:
        """The log was deleted."""
        self._uncleanable.discard(log.directory)
        if self._first_dirty_of(log.log_dir).pop(log.topic_partition, None) is not None:
            self._write_checkpoint(log.log_dir)

    # --- choosing ------------------------------------------------------------------------------------------

    def _look_after(self, seconds: float) -> None:
        """Schedule the next look for work, instead of one that was scheduled before."""
        self._looks += 1
        self._later(seconds, partial(self._look, self._looks))

    def _look(self, number: int) -> None:
        if not self._running or self._current is not None or number != self._looks:
            return
        found = self.pick()
        if found is None:
            self._look_after(self.config.backoff_ms / 1000)
            return
        self._current = _Cleaning(found[0], self._make_job(*found))
        self._submit()

    def pick(self) -> tuple[CleanableLog, Dirt] | None:
        """The log to clean next."""
        now_ms = self._clock.now_ms()
        candidates = []
        for log in self._logs():
            if not log.config.compacted or log.offline or log.closed or log.directory in self._uncleanable:
                continue
            known = self._first_dirty_of(log.log_dir).get(log.topic_partition)
            candidates.append((log, measure_dirt(_facts(log), known, now_ms)))
        return filthiest(candidates)

    def _make_job(self, log: CleanableLog, dirt: Dirt) -> CleanerJob:
        end = dirt.first_uncleanable_offset
        segments = [segment for segment in log.segments if segment.base_offset < end]
        return CleanerJob(
            self._disk,
            log.directory,
            log.config,
            dirt,
            segments,
            aborted=log.aborted_transactions(segments[0].base_offset, end),
            producers={
                producer_id: LastBatch(entry.last_offset, entry.epoch)
                for producer_id, entry in log.producers.items()
            },
            offsets=OffsetMap(self.config.dedupe_buffer_bytes, self.config.load_factor),
            io_buffer_bytes=min(self.config.io_buffer_bytes, _STEP_BYTES_MAX),
            now_ms=self._clock.now_ms(),
        )

    # --- working -------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        current = self._current
        if current is None:
            return
        if not self._running or current.log.offline or current.log.closed:
            current.steps.close()
            self._ended()
            return
        current.began = self._clock.monotonic()
        self._executor.submit(current.advance, self._advanced)

    def _advanced(self, failure: BaseException | None) -> None:
        current = self._current
        if current is None:
            return
        if failure is not None:
            self._failed(current, failure)
        elif current.step is None:
            self._finished(current)
        elif not self._running or current.log.offline or current.log.closed:
            current.steps.close()
            self._ended()
        elif current.step.swap is not None and current.log.job_beside_writes:
            # The job may be writing indexes of segments that the exchange replaces.
            self._later(_JOB_WAIT_SECONDS, lambda: self._advanced(None))
        else:
            swap = current.step.swap
            if swap is not None and not self._swap(current, swap):
                return
            now = self._clock.monotonic()
            pause = max(current.step.io_bytes / self.config.io_max_bytes_per_second, now - current.began)
            self._later(pause, self._submit)

    def _swap(self, current: _Cleaning, swap: Swap) -> bool:
        log = current.log
        failure: OttlaError = CleaningAborted("a segment went away")
        if swap.fits(log.segments):
            try:
                log.replace_segments(
                    [source.segment for source in swap.sources], swap.cleaned, self._clock.now_ms()
                )
            except (StorageFault, ApiError) as error:
                failure = error
            else:
                return True
        current.steps.close()
        self._failed(current, failure)
        return False

    def _finished(self, current: _Cleaning) -> None:
        log = current.log
        if not log.closed and not log.offline:
            known = self._first_dirty_of(log.log_dir)
            known[log.topic_partition] = current.job.end_offset
            self._write_checkpoint(log.log_dir)
        _log.info("cleaned", log=str(log.topic_partition), end_offset=current.job.end_offset)
        self._ended()

    def _failed(self, current: _Cleaning, failure: BaseException) -> None:
        log = current.log
        name = str(log.topic_partition)
        if (
            isinstance(failure, CleaningAborted) or log.closed
        ):  # a closed log may have another directory by now
            _log.info("cleaning given up", log=name, reason=str(failure))
        elif isinstance(failure, StorageFault):
            self._on_fault(failure)
        elif isinstance(failure, OSError) and failure.errno not in _DISK_FULL:
            self._on_fault(StorageFault(log.log_dir, failure))
        elif isinstance(failure, (ApiError, OSError)):
            _log.warning("cleaning failed", log=name, reason=str(failure))
            if isinstance(failure, ApiError):
                self._uncleanable.add(log.directory)
        else:
            self._current = None
            raise failure
        self._current = None
        self._look_after(self.config.backoff_ms / 1000)

    def _ended(self) -> None:
        self._current = None
        self._look_after(0)

    # --- checkpoints ---------------------------------------------------------------------------------------

    def _first_dirty_of(self, log_dir: str) -> dict[TopicPartition, int]:
        known = self._first_dirty.get(log_dir)
        if known is None:
            try:
                known = checkpoints.read_offsets(self._disk, f"{log_dir}/{checkpoints.CLEANER_FILE}")
            except checkpoints.CorruptCheckpoint as error:
                _log.warning("cleaner checkpoint ignored", reason=str(error))
                known = {}
            self._first_dirty[log_dir] = known
        return known

    def _write_checkpoint(self, log_dir: str) -> None:
        try:
            path = f"{log_dir}/{checkpoints.CLEANER_FILE}"
            checkpoints.write_offsets(self._disk, path, self._first_dirty[log_dir])
        except OSError as error:
            self._on_fault(StorageFault(log_dir, error))


class _Cleaning:
    """A running job."""

    __slots__ = ("began", "job", "log", "step", "steps")

    def __init__(self, log: CleanableLog, job: CleanerJob) -> None:
        self.log = log
        self.job = job
        self.steps = job.steps()
        self.step: Step | None = None
        self.began = 0.0

    def advance(self) -> None:
        self.step = next(self.steps, None)


def _facts(log: CleanableLog) -> LogFacts:
    """Timestamps are looked up only where a setting requires them, because that reads files."""
    config = log.config
    young = config.min_compaction_lag_ms > 0
    late = config.max_compaction_lag_ms < _NO_LAG
    row = list(log.segments)
    closed = len(row) - 1
    segments = [
        SegmentFacts(
            segment.base_offset,
            segment.size,
            segment.largest_timestamp if young and number < closed else -1,
            segment.first_timestamp if late and number < closed else -1,
        )
        for number, segment in enumerate(row)
    ]
    return LogFacts(
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
        segments,
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.min_cleanable_dirty_ratio,
    )

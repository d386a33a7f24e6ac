"""Logs, directories and group commit on a simulated disk, driven step by step, with what was acknowledged."""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.errors import ApiError, StorageFault
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.storage.commit.committer import Committer
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_dirs import LogDirs
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, batch

ROOT = "/data"
PARTITION = TopicPartition("t", 0)


class BenchClock:
    def __init__(self) -> None:
        self.at_ms = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000


class StorageBench:
    """One log in one directory; `acknowledged` is the offset up to which producers have their response."""

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.clock = BenchClock()
        self.disk = SimDisk(Random(1))
        self.offline: list[LogDir] = []
        self.dirs = LogDirs(self.disk, [ROOT], Random(2), on_offline=self.offline.append)
        self.dirs.claim("cluster", 1)
        self.dirs.load(lambda _: config, NOW_MS)
        self.executor = InlineExecutor(stepped=True)
        self.acknowledged = 0
        self.faults: list[StorageFault] = []
        self._turn: list[Callable[[], None]] = []
        self.commit = Committer(
            self.executor,
            self.clock,
            defer=self._turn.append,
            on_progress=self._progress,
            on_fault=self._fault,
        )
        self.log = self.dirs.create_log(PARTITION, Uuid(int=5), config, NOW_MS)

    def append(self, count: int = 1, size: int = 30) -> None:
        """Append one batch; it is written by `run`. Nothing happens if the log is offline."""
        try:
            self.log.append(batch(count, value=bytes(size)), 0, self.clock.now_ms())
        except ApiError:
            return
        except StorageFault as fault:
            self._fault(fault)
            return
        self.commit.schedule(self.log)

    def run(self) -> None:
        """End the turn of the loop and do all work of the executor."""
        self.end_turn()
        self.executor.run_all()

    def end_turn(self) -> None:
        turn, self._turn[:] = list(self._turn), []
        for callback in turn:
            callback()

    def produce(self, *counts: int) -> None:
        """Append a batch of each size, all in one job."""
        for count in counts:
            self.append(count)
        self.run()

    def flush_due(self) -> None:
        for log in self.dirs.flush_due(self.clock.now_ms()):
            self.commit.flush(log)
        self.executor.run_all()

    def refuses_appends(self) -> bool:
        end = self.log.log_end_offset
        self.append()
        return self.log.log_end_offset == end

    def recovered(self, survival: Survival = Survival.NONE) -> Log | None:
        """The log as the next start finds it after a power failure."""
        dirs = LogDirs(self.disk.crash(survival), [ROOT], Random(3))
        dirs.load(lambda _: self.config, NOW_MS)
        assert all(each.online for each in dirs.dirs)
        return dirs.get(PARTITION)

    def _progress(self, log: Log) -> None:
        self.acknowledged = log.committable_offset
        log.high_watermark = log.committable_offset

    def _fault(self, fault: StorageFault) -> None:
        self.faults.append(fault)
        self.dirs.fail(fault)

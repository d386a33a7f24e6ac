"""Logs, directories and group commit, driven step by step, with what was acknowledged.

The disk is simulated, or the real one with the compiled writer.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import partial

from ottla.base.errors import ApiError, StorageFault
from ottla.base.executor import Done
from ottla.base.files import Buffer, Disk, File
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.base.writer import NativeWriter
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_dirs import LogDirs
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, batch, create_log

ROOT = "/data"
PARTITION = TopicPartition("t", 0)


class BenchClock:
    def __init__(self) -> None:
        self.at_ms = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000


class BenchWriter:
    """The compiled writer without an event loop: `wait` delivers what was written."""

    def __init__(self, clock: BenchClock) -> None:
        self._waiting = 0
        self._writer = NativeWriter(self._watch, clock, 1)

    def _watch(self, descriptor: int, deliver: Callable[[], None]) -> None:
        self._descriptor, self._deliver = descriptor, deliver

    def write(self, file: File, buffers: list[Buffer], position: int, sync: bool, done: Done) -> None:
        self._waiting += 1
        self._writer.write(file, buffers, position, sync, partial(self._done, done))

    def _done(self, done: Done, failure: BaseException | None) -> None:
        self._waiting -= 1
        done(failure)

    def wait(self) -> bool:
        """Wait for the next result and report it; False if there is none to wait for."""
        if not self._waiting:
            return False
        select.select([self._descriptor], [], [])
        self._deliver()
        return True

    def close(self) -> None:
        self._writer.close()


class StorageBench:
    """One log in one directory; `acknowledged` is the offset up to which producers have their response."""

    def __init__(self, config: LogConfig, disk: Disk | None = None, root: str = ROOT) -> None:
        """The simulated disk if none is given; the compiled writer if one is given."""
        self.config = config
        self.clock = BenchClock()
        self.disk = disk or SimDisk(Random(1))
        self.root = root
        self.writer = None if disk is None else BenchWriter(self.clock)
        self.offline: list[LogDir] = []
        self.dirs = LogDirs(self.disk, [root], Random(2), InlineExecutor(), on_offline=self.offline.append)
        self.dirs.claim("cluster", 1)
        self.dirs.load(lambda _: config, NOW_MS).result()
        self.executor = InlineExecutor(stepped=True)
        self.acknowledged = 0
        self.history: list[tuple[int, int]] = []  # (changes of the simulated disk, acknowledged after them)
        self.faults: list[StorageFault] = []
        self._turn: list[Callable[[], None]] = []
        self.commit = GroupCommit(
            self.executor,
            self.clock,
            defer=self._turn.append,
            on_progress=self._progress,
            on_fault=self._fault,
            writer=self.writer,
        )
        self.log = create_log(self.dirs, PARTITION, Uuid(int=5), config)

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
        while self.executor.step() or (self.writer is not None and self.writer.wait()):
            pass

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

    def use_again(self) -> None:
        """Do what a broker does from time to time, append, and stop."""
        self.run()
        if not self.log.closed:
            self.append()
            self.run()
        self.dirs.checkpoint()
        self.dirs.enforce_retention(NOW_MS)
        self.flush_due()
        self.dirs.close(NOW_MS)

    def refuses_appends(self) -> bool:
        end = self.log.log_end_offset
        self.append()
        return self.log.log_end_offset == end

    def recovered(self, survival: Survival = Survival.NONE) -> Log | None:
        """The log as the next start finds it after a power failure of the simulated disk."""
        assert isinstance(self.disk, SimDisk)
        return self.reopened(self.disk.crash(survival))

    def reopened(self, disk: Disk) -> Log | None:
        """The log as the next start finds it on this disk."""
        dirs = LogDirs(disk, [self.root], Random(3), InlineExecutor())
        dirs.load(lambda _: self.config, NOW_MS).result()
        assert all(each.online for each in dirs.dirs)
        log = dirs.get(PARTITION)
        dirs.release()
        return log

    def _progress(self, log: Log) -> None:
        self.acknowledged = log.committable_offset
        if isinstance(self.disk, SimDisk):
            self.history.append((len(self.disk.trace), self.acknowledged))
        log.high_watermark = log.committable_offset

    def _fault(self, fault: StorageFault) -> None:
        self.faults.append(fault)
        self.dirs.fail(fault)

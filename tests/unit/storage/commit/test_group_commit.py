from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

import pytest

from ottla.base.errors import StorageFault
from ottla.base.files import Buffer, File
from ottla.base.rng import Random
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, batch, offsets, open_at

DIRECTORY = "/data/topic-0"


class StillClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 0.0


class Bench:
    """A group commit whose turns and jobs the test steps."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.disk = SimDisk(Random(1))
        self.log = open_at(self.disk, DIRECTORY, config)
        self.executor = InlineExecutor(stepped=True)
        self.turn: list[Callable[[], None]] = []
        self.progress: list[int] = []
        self.faults: list[StorageFault] = []
        self.group_commit = GroupCommit(
            self.executor,
            StillClock(),
            defer=self.turn.append,
            on_progress=lambda log: self.progress.append(log.committable_offset),
            on_fault=self.faults.append,
        )

    def append(self, count: int = 1, log: Log | None = None) -> None:
        target = log or self.log
        target.append(batch(count), 0, NOW_MS)
        self.group_commit.schedule(target)

    def end_turn(self) -> None:
        turn, self.turn[:] = list(self.turn), []
        for callback in turn:
            callback()


def test_appends_of_one_turn_are_one_job() -> None:
    bench = Bench()
    for _ in range(10):
        bench.append()
    assert bench.executor.waiting == 0
    assert len(bench.turn) == 1
    bench.end_turn()
    assert bench.executor.waiting == 1
    assert bench.executor.step()
    assert bench.progress == [10]
    assert bench.log.flushed_offset == 10


def test_appends_during_a_job_are_written_by_the_next_job() -> None:
    bench = Bench()
    bench.append()
    bench.end_turn()
    for _ in range(5):
        bench.append()
        bench.end_turn()
    assert bench.executor.waiting == 1
    bench.executor.step()
    assert bench.progress == [1]
    assert bench.executor.waiting == 1
    bench.executor.step()
    assert bench.progress == [1, 6]
    assert bench.executor.waiting == 0


def test_logs_do_not_wait_for_each_other() -> None:
    bench = Bench()
    other = open_at(bench.disk, "/data/other-0")
    bench.append()
    bench.append(log=other)
    bench.end_turn()
    assert bench.executor.waiting == 2
    bench.executor.run_all()
    assert other.flushed_offset == bench.log.flushed_offset == 1


def test_progress_is_reported_when_the_records_are_durable() -> None:
    bench = Bench()
    bench.append(3)
    bench.end_turn()
    assert open_at(bench.disk.crash(Survival.NONE), DIRECTORY).log_end_offset == 0
    bench.executor.step()
    assert bench.progress == [3]
    assert open_at(bench.disk.crash(Survival.NONE), DIRECTORY).log_end_offset == 3


def test_sealed_segments_are_synced_without_holding_up_writes() -> None:
    bench = Bench(LogConfig(flush_messages=2**63 - 1, segment_bytes=100))
    for _ in range(3):
        bench.append()
    bench.end_turn()
    bench.executor.step()
    assert bench.progress == [3]
    assert bench.log.flushed_offset == 0
    assert bench.executor.waiting == 1
    bench.append()
    bench.end_turn()
    assert bench.executor.waiting == 2
    bench.executor.run_all()
    assert bench.progress == [3, 4]
    assert bench.log.flushed_offset == 3


def test_flushing_on_demand() -> None:
    bench = Bench(LogConfig(flush_messages=2**63 - 1))
    bench.append()
    bench.end_turn()
    bench.executor.run_all()
    assert bench.log.flushed_offset == 0
    bench.group_commit.flush(bench.log)
    bench.group_commit.flush(bench.log)
    assert bench.executor.waiting == 1
    bench.executor.run_all()
    assert bench.log.flushed_offset == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failure_is_reported_once_and_nothing_is_retried(code: int) -> None:
    bench = Bench()
    bench.append()
    bench.end_turn()
    bench.executor.run_all()
    bench.append()
    bench.end_turn()
    bench.append()
    bench.end_turn()
    bench.disk.fail_at(0, code)
    before = len(bench.disk.trace)
    bench.executor.run_all()
    assert [fault.directory for fault in bench.faults] == ["/data"]
    assert bench.log.offline
    assert bench.progress == [1]
    assert bench.executor.waiting == 0
    assert len(bench.disk.trace) == before
    assert bench.group_commit.idle


def test_a_bug_in_a_job_counts_as_a_failed_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.append()
    bench.end_turn()
    monkeypatch.setattr("ottla.storage.commit.write_job.LogLocation.sync_new", lambda _: 1 / 0)
    bench.executor.run_all()
    assert [type(fault.cause) for fault in bench.faults] == [ZeroDivisionError]
    assert bench.log.offline


def test_a_log_deleted_under_a_job_is_no_fault() -> None:
    bench = Bench()
    bench.append()
    bench.end_turn()
    bench.disk.rename(DIRECTORY, "/data/gone-delete")
    bench.log.closed = True
    bench.log.moved("/data/gone-delete")
    assert bench.log.job_outstanding
    bench.executor.run_all()
    assert bench.faults == []
    assert bench.progress == []
    assert not bench.log.job_outstanding


def test_when_idle_calls_back_when_no_job_is_left() -> None:
    bench = Bench()
    calls: list[str] = []
    bench.group_commit.when_idle(lambda: calls.append("at once"))
    assert calls == ["at once"]
    bench.append()
    bench.group_commit.when_idle(lambda: calls.append("later"))
    bench.end_turn()
    assert calls == ["at once"]
    bench.executor.run_all()
    assert calls == ["at once", "later"]


class SomeInlineWriter:
    """Finishes the first write at once, within the call, and the others when the test says so."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self._writes = 0

    def write(
        self, file: File, buffers: Sequence[Buffer], position: int, sync: bool, done: Callable[..., None]
    ) -> None:
        file.pwritev(list(buffers), position)
        self._writes += 1
        if self._writes == 1:
            done(None)
        else:
            self.later.append(lambda: done(None))


def test_idle_is_not_reported_while_other_logs_are_yet_to_start() -> None:
    bench, other, writer = Bench(), Bench(), SomeInlineWriter()
    deferred: list[Callable[[], None]] = []
    commit = GroupCommit(
        bench.executor,
        StillClock(),
        defer=deferred.append,
        on_progress=lambda log: None,
        on_fault=bench.faults.append,
        writer=writer,
    )
    for log in (bench.log, other.log):
        log.append(batch(), 0, NOW_MS)
        log.flush(NOW_MS)
        log.append(batch(), 0, NOW_MS)
        commit.schedule(log)
    calls: list[str] = []
    commit.when_idle(lambda: calls.append("idle"))
    deferred.pop()()
    assert len(writer.later) == 1
    assert calls == []
    writer.later.pop()()
    assert calls == ["idle"]


def test_an_exception_of_one_log_does_not_keep_others_from_being_written() -> None:
    logs, writer = [Bench().log for _ in range(3)], SomeInlineWriter()
    deferred: list[Callable[[], None]] = []
    progress: list[Log] = []

    def on_progress(log: Log) -> None:
        progress.append(log)
        if log is logs[0]:
            raise ValueError("broken")

    commit = GroupCommit(
        InlineExecutor(stepped=False),
        StillClock(),
        defer=deferred.append,
        on_progress=on_progress,
        on_fault=lambda fault: None,
        writer=writer,
    )
    for log in logs:
        log.append(batch(), 0, NOW_MS)
        log.flush(NOW_MS)
        log.append(batch(), 0, NOW_MS)
        commit.schedule(log)
    with pytest.raises(ValueError, match="broken"):
        deferred.pop()()
    assert progress == logs[:1]
    deferred.pop()()
    for finish in writer.later:
        finish()
    assert progress == logs
    assert commit.idle


def test_what_is_reported_survives_the_loss_of_power() -> None:
    """Of a new log, of a segment that was there, and of every new segment."""
    config = LogConfig(segment_bytes=300, index_interval_bytes=100)
    bench = Bench(config)
    for number in range(1, 21):
        bench.append()
        bench.end_turn()
        assert bench.executor.step()
        assert bench.progress[-1] == number

        again = open_at(bench.disk.crash(Survival.NONE), DIRECTORY, config)

        assert [base for base, _ in offsets(again)] == list(range(number))
    assert len(bench.log.segments) > 3

"""Moves between log directories, with crashes after each change of the disk."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable

import pytest

from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_dirs import LogDirs
from ottla.storage.log_move import LogMove, MoveEnvironment
from ottla.testing.disk import Change, SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, append, batch, create_log, marker, offsets, truncate
from tests.support.quorum import FixedClock

PARTITION = TopicPartition("moved", 0)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, file_delete_delay_ms=0, flush_messages=1)
SURVIVALS = [Survival.NONE, Survival.SOME, Survival.ALL]


class Crash(BaseException):
    """The machine stops."""


class CrashingDisk(SimDisk):
    """Stops before a chosen change."""

    crash_in = -1

    def apply(self, change: Change) -> None:
        if self.crash_in == 0:
            raise Crash
        self.crash_in -= 1
        super().apply(change)


class AnyOrder(InlineExecutor):
    """Runs the work of several threads in any order."""

    def __init__(self, rng: Random) -> None:
        super().__init__(stepped=True)
        self._rng = rng

    def step(self) -> bool:
        if self.waiting:
            self._waiting.rotate(self._rng.randrange(self.waiting))
        return super().step()


class Bench:
    """Two directories, and one log in the first; the owner of its moves."""

    def __init__(self, disk: SimDisk | None = None, seed: int = 0) -> None:
        self.disk = disk or CrashingDisk(Random(1))
        self.rng = Random(seed)
        self.executor = AnyOrder(self.rng)
        self.offline: list[LogDir] = []
        self.timers: deque[Callable[[], None]] = deque()
        self.dirs = LogDirs(self.disk, ("/a", "/b"), Random(2), self.executor, on_offline=self.offline.append)
        self.dirs.claim("cluster", 7)
        loaded = self.dirs.load(lambda _: CONFIG, NOW_MS)
        self.run()
        loaded.result()
        self.commit = GroupCommit(
            self.executor,
            FixedClock(),
            defer=self.timers.append,
            on_progress=lambda _: None,
            on_fault=self.dirs.fail,
        )
        self.may = True
        self.copying = True
        self.replaced: list[Log] = []
        self.complete: list[Log] = []

    @property
    def source(self) -> LogDir:
        return self.dirs.dirs[0]

    @property
    def target(self) -> LogDir:
        return self.dirs.dirs[1]

    def create(self, batches: int = 8) -> Log:
        self.executor.stepped = False
        log = create_log(self.dirs, PARTITION, Uuid(int=9), CONFIG)
        self.executor.stepped = True
        assert log.log_dir == "/a"
        for number in range(batches):
            append(log, batch(2, value=b"%d" % number * 40), leader_epoch=number // 3)
        log.high_watermark = log.log_end_offset
        return log

    def move(self, log: Log, leftover: str = "") -> LogMove:
        environment = MoveEnvironment(
            self.dirs,
            self.disk,
            self.executor,
            FixedClock(),
            self.rng,
            lambda _, call: self.timers.append(call),
            self.commit.schedule,
        )
        move = LogMove(log, self.target, environment, self, leftover)
        move.start()
        return move

    def step(self) -> bool:
        """One piece of work, or one timer."""
        if self.timers and (not self.executor.waiting or self.rng.randrange(2)):
            self.timers.popleft()()
            return True
        return self.executor.step()

    def run(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("it does not end")

    def log(self) -> Log:
        found = self.dirs.get(PARTITION)
        assert found is not None
        return found

    def names(self, path: str) -> list[str]:
        return [name.partition(".")[0] + name[-7:] for name in self.disk.listdir(path) if "moved" in name]

    # The owner

    def may_copy(self, move: LogMove) -> bool:
        return self.copying

    def may_exchange(self, move: LogMove) -> bool:
        return self.may

    def exchanged(self, move: LogMove, log: Log) -> None:
        self.replaced.append(log)
        self.taken_over = log.log_end_offset - log.readable_offset

    def released(self, move: LogMove, log: Log) -> None:
        self.complete.append(log)


def test_a_log_is_moved_with_its_state() -> None:
    bench = Bench()
    log = bench.create()
    append(log, batch(producer_id=5, epoch=1, sequence=0, transactional=True), leader_epoch=2)
    append(log, marker(5, 1, committed=False), leader_epoch=2)
    log.high_watermark = log.log_end_offset
    log.epochs.assign(9, log.log_end_offset)
    log.increment_log_start_offset(3)
    expected, epochs, producers = offsets(log), log.epochs.entries(), log.producers
    move = bench.move(log)
    bench.run()
    moved = bench.log()
    assert move.done.done
    assert bench.replaced == bench.complete == [moved]
    assert (moved.log_dir, log.closed) == ("/b", True)
    assert offsets(moved) == expected
    assert (moved.log_start_offset, moved.high_watermark) == (3, log.high_watermark)
    assert moved.epochs.entries() == epochs
    assert moved.producers is producers
    assert len(moved.aborted_transactions(0, moved.log_end_offset)) == 1
    append(moved, batch(), leader_epoch=9)
    bench.dirs.remove_deleted(NOW_MS)
    bench.run()
    assert (bench.names("/a"), bench.names("/b")) == ([], ["moved-0moved-0"])


def test_an_empty_log_is_moved() -> None:
    bench = Bench()
    log = bench.create(0)
    bench.move(log)
    bench.run()
    assert bench.log().log_dir == "/b"
    append(bench.log(), batch())
    again = Bench(bench.disk.crash(Survival.NONE))
    assert offsets(again.log()) == [(0, 0)]


def test_a_log_whose_oldest_records_are_deleted_is_moved() -> None:
    bench = Bench()
    log = bench.create()
    log.high_watermark = log.log_end_offset
    log.increment_log_start_offset(log.log_end_offset)
    bench.move(log)
    bench.run()
    assert bench.log().log_start_offset == bench.log().log_end_offset == 16


def test_appends_during_the_move_are_kept_and_acknowledged_once() -> None:
    """Something is appended after each step; all of it is in the copy, and nothing is acknowledged while it is held."""
    bench = Bench()
    old = bench.create()
    move = bench.move(old)
    count = 0
    while not move.done.done:
        log = bench.log()
        if count < 300:
            log.append(batch(value=b"x" * (count % 90)), 3, NOW_MS)
            bench.commit.schedule(log)
            count += 1
        bench.step()
    bench.run()
    moved = bench.log()
    assert moved.log_dir == "/b"
    assert bench.taken_over > 0
    assert old.take_staged() is None
    assert moved.log_end_offset == moved.flushed_offset == 16 + count
    assert [last for _, last in offsets(moved)][-count:] == list(range(16, 16 + count))


def test_nothing_is_written_to_the_copy_before_the_old_directory_is_renamed() -> None:
    """After a crash the old log would be used, without what was acknowledged."""
    bench = Bench()
    bench.move(bench.create())
    while not bench.replaced:
        bench.step()
    log = bench.log()
    log.append(batch(), 3, NOW_MS)
    bench.commit.schedule(log)
    while bench.timers:
        bench.timers.popleft()()
    assert bench.executor.waiting == 1  # the renaming
    bench.run()
    assert log.flushed_offset == log.log_end_offset == 17


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_log_has_the_same_role_after_a_move(is_copy: bool) -> None:
    bench = Bench()
    log = bench.create()
    log.is_copy, log.followed = is_copy, not is_copy
    bench.move(log)
    bench.run()
    assert bench.log() is not log
    assert (bench.log().is_copy, bench.log().followed) == (is_copy, not is_copy)


def test_a_move_waits_for_the_metadata_and_for_its_turn() -> None:
    bench = Bench()
    bench.may, bench.copying = False, False
    move = bench.move(bench.create())
    bench.run()
    assert (move.end_offset, bench.names("/b")) == (0, ["moved-0-future"])
    bench.copying = True
    move.proceed()
    for _ in range(50):
        bench.step()
    assert (move.end_offset, move.size_bytes) == (16, bench.log().size_bytes)
    assert not bench.replaced
    bench.may = True
    bench.run()
    assert bench.log().log_dir == "/b"


def test_a_log_that_is_truncated_is_copied_again() -> None:
    bench = Bench()
    log = bench.create()
    bench.may = False
    bench.move(log)
    for _ in range(20):
        bench.step()
    truncate(log, 6, NOW_MS)
    append(log, batch(3, value=b"other"), leader_epoch=7)
    bench.may = True
    bench.run()
    assert bench.log().log_dir == "/b"
    assert offsets(bench.log()) == [(0, 1), (2, 3), (4, 5), (6, 8)]


@pytest.mark.parametrize("steps", range(24))
def test_a_truncation_between_two_steps_is_no_failure(steps: int) -> None:
    """The truncation may remove the segment that the next step reads."""
    bench = Bench()
    log = bench.create()
    bench.may = False
    bench.move(log)
    for _ in range(steps):
        bench.step()
    truncate(log, 2, NOW_MS)
    append(log, batch(3, value=b"other"), leader_epoch=7)
    bench.may = True
    bench.run()
    assert bench.offline == []
    assert bench.log().log_dir == "/b"
    assert offsets(bench.log()) == [(0, 1), (2, 4)]


def test_a_truncation_that_waits_for_a_held_log_is_not_lost() -> None:
    bench = Bench()
    log = bench.create()
    bench.move(log)
    while not log.job_beside_writes:
        bench.step()
    ran: list[bool] = []

    def cut() -> None:
        ran.append(True)
        truncate(log, 6, NOW_MS)

    log.when_idle(cut)
    bench.run()
    assert ran == [True]
    assert (bench.log().log_dir, bench.log().log_end_offset) == ("/b", 6)


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_a_cancelled_move_leaves_nothing(steps: int) -> None:
    bench = Bench()
    log = bench.create()
    move = bench.move(log)
    for _ in range(steps):
        bench.step()
    move.cancel()
    bench.run()
    assert move.done.done
    if not bench.replaced:
        assert bench.log() is log
        append(log, batch())
        bench.dirs.remove_deleted(NOW_MS)
        bench.run()
        assert bench.names("/b") == []


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_a_move_that_a_stop_interrupts_can_be_repeated(steps: int) -> None:
    bench = Bench()
    move = bench.move(bench.create())
    for _ in range(steps):
        bench.step()
    stopped = move.stop()
    bench.run()
    stopped.result()
    closed = bench.dirs.close(NOW_MS, 5)
    bench.run()
    closed.result()
    again = Bench(bench.disk)
    assert len(offsets(again.log())) == 8
    assert again.log().log_dir == "/b" or [each for each, _ in again.target.unfinished] == [PARTITION]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_errors_of_the_target_do_not_change_the_log(code: int) -> None:
    for changes in range(40):
        bench = Bench()
        log = bench.create()
        move = bench.move(log)
        bench.disk.fail_at(changes, code)
        bench.run()
        bench.disk.fail_at(-1)
        assert move.done.done
        assert bench.log().log_end_offset == 16
        if bench.log() is log:
            assert not log.offline
            append(log, batch())
            assert [each.path for each in bench.offline] in ([], ["/b"])


def test_a_crash_at_any_change_loses_nothing() -> None:
    """Records are appended all the time; those that were durable are there after a crash, in their order."""
    crashed = 0
    for changes in range(400):
        bench = Bench(seed=changes)
        bench.create()
        assert isinstance(bench.disk, CrashingDisk)
        move = bench.move(bench.log())
        bench.disk.crash_in = changes
        durable, left = 16, 20
        try:
            for number in range(400):
                log = bench.log()
                durable = max(durable, log.flushed_offset)
                left -= move.done.done
                if left == 0:
                    break
                if number % 3 == 0:
                    log.append(batch(), 3, NOW_MS)
                    bench.commit.schedule(log)
                bench.step()
        except Crash:
            crashed += 1
        else:
            assert crashed > 50
            return
        for survival in SURVIVALS:
            check_after_crash(bench, survival, durable)
    raise AssertionError("the move does not end")


def check_after_crash(bench: Bench, survival: Survival, durable: int) -> None:
    reported = bench.source.directory_id
    again = Bench(bench.disk.crash(survival), seed=1_000)
    set_aside = again.dirs.set_copies_aside(lambda _: reported)
    again.run()
    set_aside.result()
    log = again.log()
    if any(name.endswith("-stray") for name in again.disk.listdir("/b")):
        assert PARTITION in dict(again.target.unfinished)
    assert log.log_end_offset >= durable
    spans = offsets(log)
    assert [first for first, _ in spans] == [0] + [last + 1 for _, last in spans[:-1]]
    again.dirs.remove_deleted(NOW_MS)
    again.run()
    append(log, batch(), leader_epoch=5)
    if log.log_dir == "/a":
        leftovers = [
            path for _, path in again.target.unfinished
        ]  # both the copy and the marker, at one point
        for path in leftovers[1:]:
            again.disk.rmtree(path)
        again.move(log, leftovers[0] if leftovers else "")
        again.run()
        assert again.log().log_dir == "/b"
        assert not [name for name in again.disk.listdir("/b") if name.endswith("-future")]
        assert len(offsets(again.log())) == len(spans) + 1

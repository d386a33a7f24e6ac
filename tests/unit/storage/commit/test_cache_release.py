from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from ottla.base.errors import StorageFault
from ottla.base.rng import Random
from ottla.storage.commit.cache_release import CacheRelease
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import WINDOW_BYTES
from ottla.testing.disk import SimDisk, SimFile
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, batch, open_at, restart, truncate
from tests.support.quorum import FixedClock

MIB = 1 << 20
WINDOW = WINDOW_BYTES // MIB
"""So many batches are a window, but for some bytes."""
BATCH = batch(value=bytes(MIB - 1000))
Released = tuple[str, int, int]


class Bench:
    """A log that is written in the calling thread; the test steps the jobs that release the page cache."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.disk = SimDisk(Random(1))
        self.config = config or LogConfig()
        self.executor = InlineExecutor(stepped=True)
        self.faults: list[StorageFault] = []
        self.release = CacheRelease(self.executor, self.faults.append)
        self.log = self.open("topic-0")

    def open(self, name: str) -> Log:
        log = open_at(self.disk, f"/data/{name}", self.config)
        log.is_copy = True
        return log

    def write(self, count: int, log: Log | None = None) -> None:
        """Write so many MiB, each with a job of its own, and a small batch."""
        target = log or self.log
        for each in [*(BATCH for _ in range(count)), batch()]:
            target.append(each, 0, NOW_MS)
            target.flush(NOW_MS)
            self.release.written(target)


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[Released]:
    """The calls of `release`: the file, and the arguments."""
    calls: list[Released] = []

    def release(self: SimFile, kept_from: int, end: int) -> None:
        assert self.size() >= 0, "the file is open"
        calls.append((self.path.removeprefix("/data/"), kept_from, end))

    monkeypatch.setattr(SimFile, "release", release)
    return calls


@pytest.fixture
def descriptors(monkeypatch: pytest.MonkeyPatch) -> list[SimFile]:
    """The handles of the jobs that are open."""
    handles: list[SimFile] = []
    duplicate, close = SimFile.duplicate, SimFile.close

    def duplicating(self: SimFile) -> SimFile:
        handles.append(duplicate(self))
        return handles[-1]

    def closing(self: SimFile) -> None:
        if self in handles:
            handles.remove(self)
        close(self)

    monkeypatch.setattr(SimFile, "duplicate", duplicating)
    monkeypatch.setattr(SimFile, "close", closing)
    return handles


FIRST = "topic-0/00000000000000000000.log"


def window(number: int, path: str = FIRST) -> Released:
    """The call that writes one window to the disk."""
    return path, number * WINDOW_BYTES, (number + 1) * WINDOW_BYTES


def test_a_small_log_is_not_touched(released: list[Released]) -> None:
    bench = Bench()
    bench.write(2 * WINDOW - 1)
    assert bench.executor.waiting == 0


def test_each_window_is_written_to_the_disk_and_those_before_it_leave_the_cache(
    released: list[Released], descriptors: list[SimFile]
) -> None:
    bench = Bench()
    for _ in range(5):
        bench.write(WINDOW + 1)
        bench.executor.run_all()
    assert released == [window(number) for number in range(1, 5)]
    assert descriptors == []


def test_one_job_at_a_time_and_the_next_takes_all_that_was_written_meanwhile(
    released: list[Released], descriptors: list[SimFile]
) -> None:
    bench = Bench()
    bench.write(2 * WINDOW + 1)
    bench.write(3 * WINDOW + 1)
    assert bench.executor.waiting == 1
    bench.executor.run_all()
    assert released == [window(1), (FIRST, 2 * WINDOW_BYTES, 5 * WINDOW_BYTES)]
    assert descriptors == []


def test_the_logs_take_turns(released: list[Released]) -> None:
    bench = Bench()
    others = [bench.open("other-0"), bench.open("other-1")]
    bench.write(2 * WINDOW + 1)
    for log in (*others, bench.log):
        bench.write(2 * WINDOW + 1, log)
    assert bench.executor.waiting == 1
    bench.executor.run_all()
    files = [path.partition("/")[0] for path, _, _ in released]
    assert files == ["topic-0", "other-0", "other-1", "topic-0"]


def test_the_rest_of_a_sealed_segment_leaves_the_cache_with_the_next_one(released: list[Released]) -> None:
    bench = Bench(LogConfig(segment_bytes=(3 * WINDOW + 2) * MIB))
    for _ in range(5):
        bench.write(WINDOW + 1)
        bench.executor.run_all()
    sealed, active = bench.log.segments
    assert released[:2] == [window(1), window(2)]
    assert released[2] == (FIRST, sealed.size, sealed.size)
    assert released[3:] == [window(1, active.path.removeprefix("/data/"))]


def test_a_compacted_log_stays_in_the_cache() -> None:
    bench = Bench(LogConfig(cleanup_policy=frozenset({"compact", "delete"})))
    bench.write(3 * WINDOW)
    assert bench.executor.waiting == 0


def lead(log: Log) -> None:
    log.is_copy = False


def close(log: Log) -> None:
    log.close(NOW_MS)


@pytest.mark.parametrize("change", [lead, close, Log.fail])
def test_a_log_that_waits_is_left_alone_after_a_change(
    change: Callable[[Log], None], released: list[Released], descriptors: list[SimFile]
) -> None:
    bench = Bench()
    other = bench.open("other-0")
    for log in (other, bench.log):
        bench.write(2 * WINDOW + 1, log)
    change(bench.log)
    bench.executor.run_all()
    assert [path for path, _, _ in released] == [f"other-0/{FIRST.partition('/')[2]}"]
    assert descriptors == []


@pytest.mark.parametrize("change", [close, lambda log: truncate(log, 1, NOW_MS)])
def test_a_running_job_does_not_need_the_log(
    change: Callable[[Log], None], released: list[Released], descriptors: list[SimFile]
) -> None:
    bench = Bench()
    bench.write(2 * WINDOW + 1)
    assert not bench.log.job_outstanding
    change(bench.log)
    assert bench.executor.waiting == 1
    bench.executor.run_all()
    assert released == [window(1)]
    assert descriptors == []


def test_a_log_that_is_being_truncated_is_left_alone(descriptors: list[SimFile]) -> None:
    bench = Bench()
    other = bench.open("other-0")
    for log in (other, bench.log):
        bench.write(2 * WINDOW + 1, log)
    job = bench.log.take_truncation(1, NOW_MS)
    assert job is not None
    bench.executor.run_all()
    assert bench.log.segments.active.released_size == WINDOW_BYTES
    bench.log.perform(job)
    assert descriptors == []


def test_a_truncated_segment_is_released_again(released: list[Released]) -> None:
    bench = Bench()
    bench.write(4 * WINDOW + 1)
    bench.executor.run_all()
    truncate(bench.log, 2 * WINDOW + 2, NOW_MS)
    released.clear()
    bench.write(WINDOW)
    bench.executor.run_all()
    assert released == [window(2)]


def test_a_log_that_starts_again_is_small(released: list[Released]) -> None:
    bench = Bench()
    bench.write(3 * WINDOW)
    restart(bench.log, 1000, NOW_MS)
    bench.executor.run_all()
    released.clear()
    bench.write(2 * WINDOW - 1)
    assert bench.executor.waiting == 0


@pytest.mark.parametrize("closed", [True, False])
def test_a_write_that_cannot_be_started_is_a_fault_of_the_disk(
    closed: bool, monkeypatch: pytest.MonkeyPatch, descriptors: list[SimFile]
) -> None:
    """Unless the log is closed: the directory of a deleted log may be gone."""

    def failing(self: SimFile, kept_from: int, end: int) -> None:
        raise OSError(errno.EIO, "failed")

    monkeypatch.setattr(SimFile, "release", failing)
    bench = Bench()
    bench.write(2 * WINDOW + 1)
    if closed:
        bench.log.close(NOW_MS)
    bench.executor.run_all()
    assert [fault.directory for fault in bench.faults] == ["/data"] * (not closed)
    assert bench.log.offline is not closed
    assert descriptors == []


def test_without_a_descriptor_nothing_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: SimFile) -> SimFile:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(SimFile, "duplicate", failing)
    bench = Bench()
    bench.write(3 * WINDOW)
    bench.executor.run_all()
    assert not bench.faults


@pytest.mark.parametrize("is_copy", [True, False])
def test_group_commit_releases_what_this_broker_only_follows(is_copy: bool, released: list[Released]) -> None:
    bench = Bench()
    bench.log.is_copy = is_copy
    turn: list[Callable[[], None]] = []
    commit = GroupCommit(
        bench.executor,
        FixedClock(),
        defer=turn.append,
        on_progress=lambda _: None,
        on_fault=bench.faults.append,
        cache_release=bench.release,
    )
    for _ in range(2 * WINDOW + 1):
        bench.log.append(BATCH, 0, NOW_MS)
        commit.schedule(bench.log)
        turn.pop()()
        bench.executor.run_all()
    assert released == [window(1)] * is_copy
    assert commit.idle
    assert not bench.faults

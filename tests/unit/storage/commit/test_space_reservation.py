from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.files import OsDisk
from ottla.base.rng import Random
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.commit.space_reservation import PIECE_BYTES_MAX, SMALL_BYTES, SpaceReservation
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.testing.disk import SimDisk, SimFile
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, batch, open_at, truncate
from tests.support.quorum import FixedClock

MIB = 1 << 20
SMALL = SMALL_BYTES // MIB
PAGE = 4096
BATCH = batch(value=bytes(MIB))
Piece = tuple[int, int]


class Bench:
    """A log that is written in the calling thread; the test steps the jobs that reserve space."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.disk = SimDisk(Random(1))
        self.config = config or LogConfig()
        self.executor = InlineExecutor(stepped=True)
        self.reservation = SpaceReservation(self.executor)
        self.log = self.open("topic-0")

    def open(self, name: str) -> Log:
        return open_at(self.disk, f"/data/{name}", self.config)

    def write(self, count: int, log: Log | None = None, *, run: bool = True) -> None:
        """Write so many batches of a MiB, each with a job of its own."""
        target = log or self.log
        for _ in range(count):
            target.append(BATCH, 0, NOW_MS)
            target.flush(NOW_MS)
            self.reservation.written(target)
            if run:
                self.executor.run_all()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """The calls of `reserve`."""
    calls: list[Piece] = []

    def reserve(self: SimFile, start: int, end: int) -> None:
        assert self.size() >= 0, "the file is open"
        calls.append((start, end))

    monkeypatch.setattr(SimFile, "reserve", reserve)
    return calls


def pages(size: int) -> int:
    return size // PAGE * PAGE


def test_a_small_log_reserves_nothing(pieces: list[Piece]) -> None:
    bench = Bench()
    bench.write(SMALL - 1)
    assert pieces == []


def test_the_first_piece_is_a_quarter_of_the_segment_and_pieces_adjoin(pieces: list[Piece]) -> None:
    bench = Bench()
    bench.write(SMALL)
    first = bench.log.segments.active.written_size
    assert pieces == [(first, pages(first + first // 4))]
    bench.write(100)
    size = bench.log.segments.active.written_size
    assert [start for start, _ in pieces[1:]] == [end for _, end in pieces[:-1]]
    assert pieces[-1][1] > size, "space is reserved ahead of the writes"
    lengths = [end - start for start, end in pieces]
    assert lengths == sorted(lengths)
    assert lengths[-1] == PIECE_BYTES_MAX
    assert len(pieces) < 15, "a piece is for many writes"
    assert pieces[-1][1] - size <= 1.5 * PIECE_BYTES_MAX


def test_the_next_piece_is_reserved_when_half_of_one_is_used(pieces: list[Piece]) -> None:
    bench = Bench()
    bench.write(100)
    for _ in range(40):
        left = bench.log.segments.active.reserved_size - bench.log.segments.active.written_size
        assert left > PIECE_BYTES_MAX // 2
        bench.write(1)


def test_a_log_that_grew_faster_than_its_reservation_continues_at_its_end(pieces: list[Piece]) -> None:
    bench = Bench()
    bench.write(SMALL)
    bench.write(20, run=False)
    assert bench.executor.waiting == 1, "one job at a time"
    bench.executor.run_all()
    bench.write(1)
    size = bench.log.segments.active.written_size
    assert pieces[-1] == (size, pages(size + size // 4))


def test_one_job_at_a_time_for_all_logs(pieces: list[Piece]) -> None:
    bench = Bench()
    other = bench.open("topic-1")
    bench.write(SMALL, run=False)
    bench.write(SMALL, other, run=False)
    assert bench.executor.waiting == 1
    bench.executor.run_all()
    bench.write(1, other)
    assert len(pieces) == 2


def test_no_piece_ends_after_the_largest_size_of_the_segment(pieces: list[Piece]) -> None:
    bench = Bench(LogConfig(segment_bytes=20 * MIB + 5))
    bench.write(19)
    assert max(end for _, end in pieces) == 20 * MIB
    assert len(bench.log.segments) == 1
    count = len(pieces)
    bench.write(SMALL)
    assert len(bench.log.segments) == 2
    assert len(pieces) == count + 1
    assert pieces[-1][0] == bench.log.segments.active.written_size, "the new segment begins again"


def test_after_a_truncation_space_is_reserved_from_the_new_end(pieces: list[Piece]) -> None:
    bench = Bench()
    bench.write(60)
    truncate(bench.log, 20, NOW_MS)
    pieces.clear()
    bench.write(1)
    size = bench.log.segments.active.written_size
    assert pieces == [(size, pages(size + size // 4))]


def test_a_log_that_was_opened_reserves_behind_what_it_contains(pieces: list[Piece]) -> None:
    bench = Bench()
    bench.write(40)
    bench.log.close(NOW_MS)
    pieces.clear()
    log = bench.open("topic-0")
    bench.write(1, log)
    size = log.segments.active.written_size
    assert pieces == [(size, pages(size + size // 4))]


def test_without_a_descriptor_nothing_is_reserved_until_the_next_write(
    monkeypatch: pytest.MonkeyPatch, pieces: list[Piece]
) -> None:
    def failing(self: SimFile) -> SimFile:
        raise OSError(errno.EMFILE, "too many open files")

    bench = Bench()
    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "duplicate", failing)
        bench.write(SMALL)
    assert pieces == []
    bench.write(1)
    assert len(pieces) == 1


def test_a_reservation_that_fails_does_not_prevent_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Piece] = []
    handles: list[SimFile] = []

    def failing(self: SimFile, start: int, end: int) -> None:
        calls.append((start, end))
        handles.append(self)
        raise OSError(errno.EIO, "unexpected")

    monkeypatch.setattr(SimFile, "reserve", failing)
    bench = Bench()
    bench.write(60)
    assert len(calls) > 2
    for handle in handles:
        with pytest.raises(OSError, match="closed"):
            handle.size()


def test_group_commit_reserves_space_for_what_it_writes(pieces: list[Piece]) -> None:
    bench = Bench()
    turn: list[Callable[[], None]] = []
    commit = GroupCommit(
        bench.executor,
        FixedClock(),
        defer=turn.append,
        on_progress=lambda _: None,
        on_fault=lambda fault: pytest.fail(str(fault)),
    )
    for _ in range(SMALL):
        bench.log.append(BATCH, 0, NOW_MS)
        commit.schedule(bench.log)
        turn.pop()()
        bench.executor.run_all()
    assert len(pieces) == 1
    assert commit.idle


def test_the_file_system_allocates_the_space_and_the_file_keeps_its_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = OsDisk().open(str(path), create=True)
    file.pwritev([b"here"], 0, sync=True)
    file.reserve(PAGE, PAGE + MIB)
    found = path.stat()
    assert found.st_size == 4
    assert found.st_blocks * 512 >= MIB
    assert file.pread(MIB, 0) == b"here"
    file.pwritev([b"more"], 4, sync=True)
    assert path.read_bytes() == b"heremore"
    file.truncate(4)
    assert path.stat().st_blocks * 512 < MIB, "a truncation returns the space"
    file.close()

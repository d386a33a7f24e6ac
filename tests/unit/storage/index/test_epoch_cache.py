from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.files import OsDisk
from ottla.storage.checkpoints import CorruptCheckpoint
from ottla.storage.index.epoch_cache import EpochCache, EpochEntry


def cache_at(path: Path) -> EpochCache:
    return EpochCache(OsDisk(), str(path / "leader-epoch-checkpoint"))


def filled(path: Path) -> EpochCache:
    cache = cache_at(path)
    for epoch, start in ((2, 10), (4, 20), (7, 30)):
        assert cache.assign(epoch, start)
    return cache


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # below all known: ends where the first known begins
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 99)),
        (8, (-1, -1)),
    ],
)
def test_end_offsets(tmp_path: Path, epoch: int, answer: tuple[int, int]) -> None:
    assert filled(tmp_path).end_offset_for(epoch, 99) == answer


def test_an_empty_cache_has_no_epochs(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    assert cache.end_offset_for(0, 5) == (-1, -1)
    assert cache.latest_epoch is None
    assert cache.earliest is None
    assert cache.epoch_for_offset(3) is None


def test_the_file(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    assert not (tmp_path / "leader-epoch-checkpoint").exists()
    cache.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n3\n2 10\n4 20\n7 30\n"
    again = cache_at(tmp_path)
    assert again.entries() == [EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(7, 30)]
    assert again.take_write(100) is None


def test_an_entry_is_written_when_the_recovery_point_passes_its_start(tmp_path: Path) -> None:
    file = tmp_path / "leader-epoch-checkpoint"
    cache = cache_at(tmp_path)
    cache.assign(1, 0)
    cache.flush(below=0)
    assert not file.exists()
    cache.assign(2, 0)
    cache.flush(below=0)
    assert not file.exists()
    cache.flush(below=1)
    assert file.read_bytes() == b"0\n1\n2 0\n"
    cache.assign(3, 7)
    cache.flush(below=7)
    assert file.read_bytes() == b"0\n1\n2 0\n"


def test_a_dropped_entry_is_removed_from_the_file_at_the_next_flush(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.flush()
    cache.truncate_from_end(20)
    cache.flush(below=0)
    assert cache_at(tmp_path).entries() == [EpochEntry(2, 10)]


def test_an_entry_that_was_added_during_a_write_is_written_by_the_next(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    write = cache.take_write(100)
    assert write is not None
    write.run()
    cache.assign(8, 40)
    write.finish()
    assert cache.take_write(41) is not None


def test_a_known_epoch_is_no_news_and_starts_only_move_back(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.flush()
    assert not cache.assign(7, 35)
    assert cache.take_write(100) is None
    assert cache.assign(7, 25)
    assert cache.entries()[-1] == EpochEntry(7, 25)


def test_contradicting_entries_are_dropped(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    assert cache.assign(5, 40)
    assert cache.entries() == [EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(5, 40)]
    assert cache.assign(9, 15)
    assert cache.entries() == [EpochEntry(2, 10), EpochEntry(9, 15)]


def test_truncation_from_the_end(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.truncate_from_end(31)
    assert cache.latest_epoch == 7
    cache.truncate_from_end(20)
    assert cache.entries() == [EpochEntry(2, 10)]
    cache.truncate_from_end(-1)
    assert cache.latest_epoch == 2


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (5, [(2, 10), (4, 20), (7, 30)]),
        (10, [(2, 10), (4, 20), (7, 30)]),
        (15, [(2, 15), (4, 20), (7, 30)]),
        (20, [(4, 20), (7, 30)]),
        (99, [(7, 99)]),
    ],
)
def test_truncation_from_the_start(tmp_path: Path, start: int, left: list[tuple[int, int]]) -> None:
    cache = filled(tmp_path)
    cache.truncate_from_start(start)
    assert cache.entries() == left


def test_epochs_by_offset(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    assert [cache.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [None, 2, 2, 4, 7]
    assert [cache.previous_epoch(epoch) for epoch in (2, 4, 8)] == [None, 2, 7]


def test_clearing_reaches_the_file(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.flush()
    cache.clear()
    cache.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation):
        cache_at(tmp_path).assign(-1, 0)
    for content in (b"0\n1\n-1 0\n", b"0\n1\n0 x\n", b"0\n2\n0 0\n", b"1\n0\n", b"0\n1\n0 0 0\n"):
        (tmp_path / "leader-epoch-checkpoint").write_bytes(content)
        with pytest.raises(CorruptCheckpoint):
            cache_at(tmp_path)


def test_a_dropped_entry_is_removed_from_the_file_although_others_are_not_written_yet(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    cache.assign(2, 10)
    cache.flush()
    cache.assign(4, 20)
    cache.truncate_from_end(5)
    cache.flush(below=5)
    assert cache_at(tmp_path).entries() == []


def test_adopted_entries_are_written(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    moved = cache_at(tmp_path / "moved")
    moved.adopt(filled(tmp_path))
    moved.flush(below=0)
    assert cache_at(tmp_path / "moved").entries() == filled(tmp_path).entries()
    assert moved.earliest == EpochEntry(2, 10)

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.files import OsDisk
from ottla.base.rng import Random
from ottla.storage.log import log_files
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from ottla.testing.disk import SimDisk
from tests.support.logs import NOW_MS, batch

DIRECTORY = "/t-0"
CONFIG = LogConfig(index_interval_bytes=150)


def new_segment(base_offset: int = 100, config: LogConfig = CONFIG) -> tuple[SimDisk, Segment]:
    disk = SimDisk(Random(1))
    disk.mkdir(DIRECTORY)
    return disk, Segment.create(disk, DIRECTORY, base_offset, config, now_ms=NOW_MS, jitter_ms=0)


def fill(segment: Segment, count: int, *, records: int = 2, first_time: int = NOW_MS) -> None:
    """Append batches of some records, ten milliseconds apart."""
    offset = segment.base_offset
    for number in range(count):
        made = batch(records, time_ms=first_time + number * 10)
        data = bytearray(made.data)
        data[:8] = offset.to_bytes(8, "big")
        offset += records
        position = segment.note_batch(offset - 1, made.header.max_timestamp, len(data))
        segment.file.pwritev([data], position)
        segment.written_size = segment.size


def finish(segment: Segment) -> None:
    segment.seal()
    segment.sync_indexes()


def test_a_new_segment_has_its_log_file_and_later_its_indexes() -> None:
    disk, segment = new_segment()
    assert disk.listdir(DIRECTORY) == [f"{100:020d}.log"]
    segment.sync_indexes()
    assert disk.listdir(DIRECTORY) == [f"{100:020d}.index", f"{100:020d}.log", f"{100:020d}.timeindex"]
    assert (segment.size, segment.max_timestamp, segment.first_timestamp) == (0, -1, -1)
    assert segment.next_offset() == 100
    assert segment.find(100, 0) is None


def test_leftovers_of_the_same_name_are_emptied() -> None:
    disk, segment = new_segment()
    fill(segment, 5)
    finish(segment)
    again = Segment.create(disk, DIRECTORY, 100, CONFIG, now_ms=NOW_MS, jitter_ms=0)
    assert again.size == 0
    assert disk.file_size(again.path) == 0
    again.sync_indexes()
    assert disk.file_size(again.path_of(log_files.OFFSET_INDEX)) == 0


def test_every_offset_is_found() -> None:
    _, segment = new_segment()
    fill(segment, 40, records=3)
    assert segment.offset_index.entry_count > 5
    for offset in range(100, 220):
        place = segment.find(offset, segment.written_size)
        assert place is not None
        assert place.base_offset <= offset <= place.last_offset
    assert segment.find(220, segment.written_size) is None
    assert segment.find(219, segment.written_size - 1) is not None


def test_a_reopened_segment_has_the_same_state() -> None:
    disk, segment = new_segment()
    fill(segment, 20)
    finish(segment)
    again = Segment.load(disk, DIRECTORY, 100, CONFIG)
    assert again.size == segment.size
    assert again.next_offset() == 140
    assert (again.max_timestamp, again.max_timestamp_offset) == (NOW_MS + 190, 139)
    assert again.first_timestamp == NOW_MS
    assert again.largest_timestamp == NOW_MS + 190


def test_without_timestamps_the_age_is_that_of_the_file() -> None:
    disk, segment = new_segment()
    disk.now_ms = 12345
    segment.file.pwritev([b"x"], 0)
    assert segment.largest_timestamp == 12345


@pytest.mark.parametrize("kind", [log_files.OFFSET_INDEX, log_files.TIME_INDEX])
@pytest.mark.parametrize("content", [b"\xff" * 24, b"\x00\x00\x00\x05", bytes(range(1, 49))])
def test_a_broken_index_is_rebuilt_when_it_is_used(kind: str, content: bytes) -> None:
    disk, segment = new_segment()
    fill(segment, 20)
    finish(segment)
    disk.replace(segment.path_of(kind), content)
    again = Segment.load(disk, DIRECTORY, 100, CONFIG)
    place = again.find(130, again.written_size)
    assert place is not None
    assert place.base_offset == 130
    assert again.next_offset() == 140
    assert again.max_timestamp == NOW_MS + 190
    found = again.find_timestamp(NOW_MS + 95, 100)
    assert found is not None
    assert found.base_offset == 120


def test_rebuilt_indexes_equal_the_first_ones() -> None:
    disk, segment = new_segment()
    fill(segment, 30)
    finish(segment)
    kinds = (log_files.OFFSET_INDEX, log_files.TIME_INDEX)
    before = [disk.read(segment.path_of(kind)) for kind in kinds]
    again = Segment.load(disk, DIRECTORY, 100, CONFIG)
    again.rebuild_indexes()
    finish(again)
    assert [disk.read(segment.path_of(kind)) for kind in kinds] == before


@pytest.mark.parametrize("offset", [100, 101, 113, 139])
def test_truncation_cuts_whole_batches(offset: int) -> None:
    disk, segment = new_segment()
    fill(segment, 20)
    batch_bytes = segment.size // 20
    kept = (offset - 100) // 2
    disk.sync_dir("/")
    disk.sync_dir(DIRECTORY)
    assert segment.truncate_to(offset) == (20 - kept) * batch_bytes
    assert (segment.size, segment.written_size) == (kept * batch_bytes, kept * batch_bytes)
    assert disk.crash().file_size(segment.path) == kept * batch_bytes
    assert segment.next_offset() == 100 + kept * 2
    assert segment.max_timestamp == (NOW_MS + (kept - 1) * 10 if kept else -1)


def test_truncation_above_the_end_changes_nothing() -> None:
    _, segment = new_segment()
    fill(segment, 3)
    size = segment.size
    assert segment.truncate_to(106) == 0
    assert segment.size == size


def test_a_segment_can_be_appended_to_after_truncation() -> None:
    disk, segment = new_segment()
    fill(segment, 30)
    segment.truncate_to(120)
    other_disk, other = new_segment()
    fill(other, 10)
    for each in (segment, other):
        each.note_batch(121, NOW_MS + 1000, 500)
        each.note_batch(122, NOW_MS + 1001, 500)
        finish(each)
    for kind in (log_files.OFFSET_INDEX, log_files.TIME_INDEX):
        assert disk.read(segment.path_of(kind)) == other_disk.read(other.path_of(kind))


def test_renaming_moves_all_files_and_keeps_them_open() -> None:
    disk, segment = new_segment()
    fill(segment, 10)
    finish(segment)
    file = segment.file
    segment.rename(log_files.DELETED)
    assert all(name.endswith(".deleted") for name in disk.listdir(DIRECTORY))
    assert file.pread(8, 0) == (100).to_bytes(8, "big")
    assert segment.find(105, segment.written_size) is not None
    segment.remove()
    assert disk.listdir(DIRECTORY) == []


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    disk = OsDisk()
    segment = Segment.create(disk, str(tmp_path), 0, CONFIG, now_ms=NOW_MS, jitter_ms=0)
    fill(segment, 3)
    finish(segment)
    segment.close()
    again = Segment.load(disk, str(tmp_path), 0, CONFIG)
    (tmp_path / f"{0:020d}.log").unlink()
    assert again.size > 0
    with pytest.raises(FileNotFoundError):
        again.find(0, again.size)

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.files import OsDisk
from ottla.storage.index.sparse_index import CorruptIndex
from ottla.storage.index.time_index import TimeIndex

BASE = 500


def index_at(path: Path, max_bytes: int = 120) -> TimeIndex:
    return TimeIndex(OsDisk(), str(path / "i.timeindex"), BASE, max_bytes)


def filled(path: Path) -> TimeIndex:
    index = index_at(path)
    for timestamp, offset in ((10, 510), (20, 520), (30, 520)):
        index.maybe_append(timestamp, offset)
    return index


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(9, (-1, BASE)), (10, (10, 510)), (29, (20, 520)), (30, (30, 520)), (2**62, (30, 520))],
)
def test_lookup(tmp_path: Path, timestamp: int, found: tuple[int, int]) -> None:
    assert filled(tmp_path).lookup(timestamp) == found


def test_an_equal_timestamp_adds_nothing_and_an_older_one_is_a_bug(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.maybe_append(30, 530)
    assert index.last_entry == (30, 520)
    for timestamp, offset in ((29, 530), (40, 519)):
        with pytest.raises(InvariantViolation):
            index.maybe_append(timestamp, offset)


def test_no_timestamp_is_never_indexed(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.maybe_append(-1, 510)
    assert index.entry_count == 0
    assert index.last_entry == (-1, BASE)


def test_bytes_and_reading_back(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.maybe_append(0x01A1E1CAC5B3, 550)
    index.flush()
    data = (tmp_path / "i.timeindex").read_bytes()
    assert data == bytes.fromhex("000001a1e1cac5b3 00000032")
    (tmp_path / "i.timeindex").write_bytes(data + bytes(10_485_756 - 12))
    assert index_at(tmp_path).last_entry == (0x01A1E1CAC5B3, 550)


def test_truncation_is_by_offset(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.truncate_to(520)
    assert index.last_entry == (10, 510)
    index.truncate_to(510)
    assert index.last_entry == (-1, BASE)


def test_the_last_slot_is_kept_for_the_roll(tmp_path: Path) -> None:
    index = index_at(tmp_path, max_bytes=24)
    assert not index.is_full
    index.maybe_append(1, 501)
    assert index.is_full
    with pytest.raises(InvariantViolation):
        index.maybe_append(2, 502)
    index.maybe_append(2, 502, at_roll=True)
    assert index.last_entry == (2, 502)


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("0000000000000005 00000001 0000000000000005 00000002"),
        bytes.fromhex("0000000000000005 00000002 0000000000000006 00000001"),
        bytes.fromhex("ffffffffffffff05 00000002"),
        bytes.fromhex("0000000000000005 000000"),
    ],
)
def test_corruption_is_found(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "i.timeindex").write_bytes(data)
    with pytest.raises(CorruptIndex):
        index_at(tmp_path).check()

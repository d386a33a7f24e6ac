from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.files import OsDisk
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.sparse_index import CorruptIndex

BASE = 1_000
KAFKA_BYTES = bytes.fromhex("00000032 00001613 00000065 00002c74 00000098 000042d5")
"""The start of an index that Apache Kafka wrote: offsets 50, 101, 152 at 5651, 11380, 17109."""


def index_at(path: Path, base: int = BASE, max_bytes: int = 80) -> OffsetIndex:
    return OffsetIndex(OsDisk(), str(path / "i.index"), base, max_bytes)


def filled(path: Path) -> OffsetIndex:
    index = index_at(path)
    for offset, position in ((1_010, 100), (1_020, 200), (1_030, 300)):
        index.append(offset, position)
    return index


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (0, (BASE, 0)),
        (1_009, (BASE, 0)),
        (1_010, (1_010, 100)),
        (1_019, (1_010, 100)),
        (1_030, (1_030, 300)),
        (2**62, (1_030, 300)),
    ],
)
def test_lookup_finds_the_greatest_entry_at_or_below(
    tmp_path: Path, offset: int, found: tuple[int, int]
) -> None:
    assert filled(tmp_path).lookup(offset) == found


def test_an_upper_bound_by_position(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.first_at_or_after(101) == (1_020, 200)
    assert index.first_at_or_after(200) == (1_020, 200)
    assert index.first_at_or_after(301) is None


def test_files_are_those_of_kafka(tmp_path: Path) -> None:
    index = index_at(tmp_path, base=0)
    for offset, position in ((50, 5651), (101, 11380), (152, 17109)):
        index.append(offset, position)
    index.flush()
    assert (tmp_path / "i.index").read_bytes() == KAFKA_BYTES


@pytest.mark.parametrize("padding", [0, 8, 8 * 100, 10_485_760 - len(KAFKA_BYTES)])
def test_a_preallocated_zero_tail_is_no_entry_and_is_cut(tmp_path: Path, padding: int) -> None:
    (tmp_path / "i.index").write_bytes(KAFKA_BYTES + bytes(padding))
    index = index_at(tmp_path, base=0, max_bytes=10_485_760)
    assert index.entry_count == 3
    assert index.lookup(151) == (101, 11380)
    index.append(153, 17200)
    index.flush()
    assert (tmp_path / "i.index").read_bytes() == KAFKA_BYTES + bytes.fromhex("00000099 00004330")


def test_an_entry_whose_last_bytes_are_zero_survives_the_cut(tmp_path: Path) -> None:
    (tmp_path / "i.index").write_bytes(bytes.fromhex("00000000 7f000000") + bytes(80_000))
    assert index_at(tmp_path, base=0).lookup(5) == (0, 0x7F000000)


def test_only_new_entries_are_written(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.flush()
    (tmp_path / "i.index").write_bytes(bytes(24))
    index.append(1_040, 400)
    index.flush(sync=True)
    assert (tmp_path / "i.index").read_bytes() == bytes(24) + bytes.fromhex("00000028 00000190")


def test_truncation_reaches_the_file(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.flush()
    index.truncate_to(1_020)
    assert index.last_offset == 1_010
    index.append(1_015, 150)
    index.close()
    again = index_at(tmp_path)
    assert [again.lookup(offset) for offset in (1_012, 1_099)] == [(1_010, 100), (1_015, 150)]
    assert again.size_bytes == 16 == (tmp_path / "i.index").stat().st_size


def test_released_entries_are_read_again(tmp_path: Path) -> None:
    index = filled(tmp_path)
    with pytest.raises(InvariantViolation):
        index.release()
    index.flush()
    index.release()
    assert index.lookup(1_025) == (1_020, 200)


def test_an_empty_index_makes_an_empty_file(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.close()
    assert (tmp_path / "i.index").read_bytes() == b""
    assert index.last_offset == BASE


def test_reset_forgets_without_reading(tmp_path: Path) -> None:
    (tmp_path / "i.index").write_bytes(b"garbage that is no index")
    index = index_at(tmp_path)
    with pytest.raises(CorruptIndex):
        index.check()
    index.reset()
    index.append(1_001, 7)
    index.flush()
    assert index_at(tmp_path).lookup(1_001) == (1_001, 7)


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("00000032 00001613 0000"),  # torn
        bytes.fromhex("00000032 00001613 00000032 00002c74"),  # the same offset twice
        bytes.fromhex("00000032 00001613 00000033 00000010"),  # position goes back
        bytes.fromhex("ffffffff 00001613"),  # before the base offset
        bytes.fromhex("00000032 00001613") + bytes(8) + bytes.fromhex("00000033 00001700"),  # a lost page
    ],
)
def test_what_contradicts_itself_is_corrupt(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "i.index").write_bytes(data)
    with pytest.raises(CorruptIndex):
        index_at(tmp_path).check()


def test_impossible_entries_are_refused(tmp_path: Path) -> None:
    index = filled(tmp_path)
    for offset, position in ((1_030, 400), (1_031, 300), (999, 400), (BASE + 2**31, 400), (1_031, 2**31)):
        with pytest.raises(InvariantViolation):
            index.append(offset, position)
    assert index.entry_count == 3


def test_a_full_index_is_reported(tmp_path: Path) -> None:
    index = index_at(tmp_path, max_bytes=23)
    index.append(BASE, 1)
    assert not index.is_full
    index.append(BASE + 1, 2)
    assert index.is_full
    with pytest.raises(InvariantViolation):
        index.append(BASE + 2, 3)


def test_entries_are_held_in_arrays(tmp_path: Path) -> None:
    columns = filled(tmp_path)._columns
    assert all(isinstance(column, array) and column.itemsize == 4 for column in columns)

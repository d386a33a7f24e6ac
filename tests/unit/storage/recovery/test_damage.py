"""Records that recovery cuts: valid ones are copied durably; a torn tail and bytes like old messages are not."""

from __future__ import annotations

import struct
import zlib

import pytest

from ottla.base.errors import LocalError
from ottla.base.rng import Random
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery import damage
from ottla.testing.disk import SimDisk, Survival
from tests.support.logs import append, batch, open_at

DIRECTORY = "/data/topic-0"
LOG = f"{DIRECTORY}/00000000000000000000.log"


def filled() -> tuple[SimDisk, list[int]]:
    """A log of ten batches of one record, and their positions."""
    disk = SimDisk(Random(1))
    log = open_at(disk, DIRECTORY)
    positions = []
    for number in range(10):
        positions.append(log.segments.active.size)
        append(log, batch(value=bytes([number]) * 40))
    return disk, positions


def copies(disk: SimDisk) -> dict[str, bytes]:
    return {name: disk.read(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY) if "damaged" in name}


def test_valid_batches_behind_a_damaged_one_are_kept_durably() -> None:
    disk, positions = filled()
    disk.corrupt(LOG, positions[4] + 70)
    damaged = disk.read(LOG)
    assert open_at(disk, DIRECTORY).log_end_offset == 4
    name = f"00000000000000000000.log.damaged-{positions[4]}"
    assert copies(disk.crash(Survival.NONE)) == {name: damaged[positions[4] :]}


def test_a_copy_is_durable_before_anything_is_cut() -> None:
    disk, positions = filled()
    log = open_at(disk, DIRECTORY)
    name = damage.keep(disk, DIRECTORY, log.segments.active, positions[7])
    assert disk.crash(Survival.NONE).read(name) == disk.read(LOG)[positions[7] :]


def test_of_a_torn_tail_nothing_is_kept() -> None:
    disk, positions = filled()
    disk.corrupt(LOG, positions[9] + 70)
    assert open_at(disk, DIRECTORY).log_end_offset == 9
    assert copies(disk) == {}


def old_message(magic: int, crc: int | None = None) -> bytes:
    """A message of a format before record batches."""
    body = bytes([magic, 0]) + struct.pack(">ii", -1, 2) + b"ab"
    checksum = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", 10, len(body) + 4, checksum) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_an_old_format_are_refused_and_not_changed(magic: int) -> None:
    disk, _ = filled()
    before = disk.read(LOG) + old_message(magic)
    disk.replace(LOG, before)
    with pytest.raises(LocalError, match=f"format {magic}"):
        open_at(disk, DIRECTORY)
    assert disk.read(LOG) == before


@pytest.mark.parametrize("tail", [old_message(1, crc=7), old_message(2), old_message(1)[:-1]])
def test_bytes_that_are_no_sound_message_are_cut(tail: bytes) -> None:
    disk, _ = filled()
    before = disk.read(LOG)
    disk.replace(LOG, before + tail)
    assert open_at(disk, DIRECTORY, LogConfig()).log_end_offset == 10
    assert disk.read(LOG) == before

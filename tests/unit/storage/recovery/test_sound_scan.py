"""The scan of a segment notes batches together exactly as it notes them singly, and ends where they are not sound."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.base.rng import Random
from ottla.storage.index.epoch_cache import EpochCache
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from ottla.storage.recovery import sound_scan
from ottla.storage.recovery.sound_scan import SoundScan
from ottla.testing.disk import SimDisk
from tests.support.logs import NOW_MS, batch

DIRECTORY = "/data/topic-0"
BASE = 100
CONFIG = LogConfig(index_interval_bytes=300)


def stored(count: int, offset: int, leader_epoch: int, value: bytes, **fields: Any) -> bytes:
    """A batch as it is in a file: offset and leader epoch are outside the CRC."""
    data = bytearray(batch(count, value=value, **fields).data)
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return bytes(data)


def content(rng: Random) -> list[bytes]:
    """Batches of rising epochs with gaps between their offsets; some have producer ids, some are long."""
    made, offset, epoch = [], BASE, rng.randrange(-1, 3)
    for number in range(rng.randrange(1, 60)):
        count = rng.randrange(1, 4)
        producer = {"producer_id": 7, "epoch": 0, "sequence": number} if rng.random() < 0.3 else {}
        size = rng.choice((0, 20, 100, 3000)) if rng.random() < 0.5 else 10
        time_ms = NOW_MS + rng.randrange(-50, 50)
        made.append(stored(count, offset, epoch, bytes(size), time_ms=time_ms, **producer))
        offset += count + (rng.randrange(5) if rng.random() < 0.2 else 0)
        epoch += rng.random() < 0.1
    return made


def scanned(data: bytes, config: LogConfig = CONFIG, from_offset: int = BASE) -> tuple[Any, ...]:
    """Everything that a scan of a segment with this content leaves."""
    disk = SimDisk(Random(1))
    disk.makedirs(DIRECTORY)
    first = Segment.create(disk, DIRECTORY, BASE, config, now_ms=NOW_MS, jitter_ms=0)
    first.file.pwritev([data], 0)
    segment = Segment.load(disk, DIRECTORY, BASE, config)
    epochs = EpochCache(disk, f"{DIRECTORY}/epochs")
    scan = SoundScan(segment, config, epochs)
    end = scan.run(segment.restart_indexes(from_offset))
    segment.size = end
    indexes = [
        [list(column) for column in index._columns] for index in (segment.offset_index, segment.time_index)
    ]
    timestamps = segment.first_timestamp, segment.max_timestamp, segment.max_timestamp_offset
    return end, scan.next_offset, indexes, timestamps, segment.index_full, epochs.entries()


@pytest.mark.parametrize("chunk_bytes", [500, 2000, 1 << 20])
@pytest.mark.parametrize("seed", range(8))
def test_batches_that_are_noted_together_leave_the_same(
    monkeypatch: pytest.MonkeyPatch, seed: int, chunk_bytes: int
) -> None:
    monkeypatch.setattr(sound_scan, "CHUNK_BYTES", chunk_bytes)
    rng = Random(seed)
    data = bytearray(b"".join(content(rng)))
    if seed % 2:
        data[rng.randrange(len(data))] ^= 0x40
    config = LogConfig(index_interval_bytes=300, segment_bytes=2000) if seed % 3 == 0 else CONFIG
    together = scanned(bytes(data), config)
    monkeypatch.setattr(sound_scan, "scan_raw", lambda *_: None)
    assert together == scanned(bytes(data), config)


def test_the_scan_ends_at_the_first_batch_that_is_not_sound() -> None:
    sound = [stored(2, BASE + 2 * number, 1, bytes(30)) for number in range(6)]
    whole = b"".join(sound)
    assert scanned(whole)[:2] == (len(whole), BASE + 12)
    damaged = bytearray(whole)
    damaged[len(whole) - 5] ^= 1
    for end in (bytes(damaged), whole[:-1], whole[: len(whole) - len(sound[5])] + bytes(200)):
        assert scanned(end)[:2] == (len(whole) - len(sound[5]), BASE + 10)
    assert scanned(whole + sound[2])[:2] == (len(whole), BASE + 12), "offsets that do not increase"


def test_a_long_batch_is_summed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound_scan, "CHUNK_BYTES", 400)
    data = stored(1, BASE, 1, b"a") + stored(1, BASE + 1, 1, bytes(5000)) + stored(1, BASE + 2, 2, b"b")
    found = scanned(data)
    assert found[:2] == (len(data), BASE + 3)
    assert [tuple(entry) for entry in found[-1]] == [(1, BASE), (2, BASE + 2)]


def test_batches_of_one_epoch_are_noted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    noted = Segment.note_bulk
    monkeypatch.setattr(
        Segment, "note_bulk", lambda self, size, bulk: (runs.append(size), noted(self, size, bulk))[1]
    )
    batches = [stored(1, BASE + number, number // 20, bytes(30)) for number in range(60)]
    data = b"".join(batches)
    assert scanned(data)[:2] == (len(data), BASE + 60)
    assert runs == [19 * len(batches[0]), 20 * len(batches[0]), 20 * len(batches[0])]

from __future__ import annotations

import errno
import struct
import zlib
from pathlib import Path

import pytest

from ottla.base.errors import LocalError, StorageFault
from ottla.base.files import OsDisk
from ottla.base.rng import Random
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.producers.producer_state import BATCHES_REMEMBERED
from ottla.storage.recovery.recovery import LastKnown
from ottla.testing.disk import SimDisk, Survival
from tests.support.logs import NOW_MS, append, batch, checkpoint, headers, marker, offsets, open_at

DIRECTORY = "/data/topic-0"
SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100)
UNFLUSHED = LogConfig(segment_bytes=300, index_interval_bytes=100, flush_messages=2**63 - 1)


def filled(count: int = 10, config: LogConfig = SMALL) -> tuple[SimDisk, Log]:
    disk = SimDisk(Random(1))
    log = open_at(disk, DIRECTORY, config)
    for number in range(count):
        made = batch(value=bytes(40), producer_id=1, epoch=0, sequence=number, time_ms=NOW_MS + number)
        append(log, made, leader_epoch=number // 4)
    return disk, log


def log_path(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


def test_a_new_log_is_empty_and_durable_with_its_first_flush() -> None:
    disk = SimDisk(Random(1))
    log = open_at(disk, DIRECTORY)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert not disk.crash(Survival.NONE).exists(DIRECTORY)
    append(log, batch())
    assert offsets(open_at(disk.crash(Survival.NONE), DIRECTORY)) == [(0, 0)]


def test_records_of_a_log_that_was_empty_at_a_clean_stop_are_durable() -> None:
    disk = SimDisk(Random(1))
    open_at(disk, DIRECTORY).close(NOW_MS)
    again = open_at(disk, DIRECTORY, last=LastKnown(clean=True))
    append(again, batch())
    assert offsets(open_at(disk.crash(Survival.NONE), DIRECTORY)) == [(0, 0)]


def test_a_crash_loses_nothing_synced() -> None:
    disk, log = filled()
    again = open_at(disk.crash(Survival.NONE), DIRECTORY, SMALL)
    assert [tuple(header)[1:] for header in headers(again)] == [tuple(header)[1:] for header in headers(log)]
    assert again.epochs.entries() == log.epochs.entries()
    entry = again.producers.get(1)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset) == (9, 9)
    assert again.readable_offset == again.flushed_offset == 10


def test_the_window_of_a_producer_is_known_again() -> None:
    disk, _ = filled()
    again = open_at(disk.crash(Survival.NONE), DIRECTORY, SMALL)
    for sequence in range(5, 10):
        (placed,) = append(again, batch(value=bytes(40), producer_id=1, epoch=0, sequence=sequence))
        assert placed.duplicate
        assert placed.base_offset == sequence


@pytest.mark.parametrize("count", [6, 9, 12])
def test_the_window_of_a_producer_is_known_after_a_clean_stop(count: int) -> None:
    disk, log = filled(count, LogConfig(segment_bytes=1200))
    log.close(NOW_MS)
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(clean=True))
    assert len(again.segments) > 1 or count < 12
    for sequence in range(max(0, count - BATCHES_REMEMBERED), count):
        (placed,) = append(again, batch(value=bytes(40), producer_id=1, epoch=0, sequence=sequence))
        assert (placed.duplicate, placed.base_offset) == (True, sequence)


@pytest.mark.parametrize("tail", [bytes(200), b"\xff" * 200, b"half a batch"])
def test_a_tail_that_is_no_batch_is_cut(tail: bytes) -> None:
    disk, log = filled(4)
    end = log.segments.active.size
    path = log.segments.active.path
    disk.open(path).pwritev([tail], end, sync=True)
    again = open_at(disk, DIRECTORY, SMALL)
    assert again.log_end_offset == 4
    assert disk.crash(Survival.NONE).file_size(path) == end


def test_the_log_ends_before_the_first_bad_batch() -> None:
    disk, log = filled(10)
    victim = log.segments[1]
    place = victim.find(victim.base_offset + 1, victim.written_size)
    assert place is not None
    disk.corrupt(victim.path, place.position + 70)
    again = open_at(disk, DIRECTORY, SMALL)
    assert again.log_end_offset == place.base_offset
    assert len(again.segments) == 2
    assert again.epochs.latest_epoch == (place.base_offset - 1) // 4
    entry = again.producers.get(1)
    assert entry is not None
    assert entry.last_sequence == place.base_offset - 1
    crashed = open_at(disk.crash(Survival.NONE), DIRECTORY, SMALL)
    assert crashed.log_end_offset == place.base_offset


def test_offsets_must_increase() -> None:
    disk, log = filled(2, LogConfig())
    data = disk.read(log.segments.active.path)
    disk.replace(log.segments.active.path, data + data)
    assert open_at(disk, DIRECTORY, SMALL).log_end_offset == 2


def test_records_below_the_recovery_point_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    config = LogConfig(index_interval_bytes=4096)
    monkeypatch.setattr("ottla.storage.log.log.REREAD_BYTES_MAX", 50_000)
    monkeypatch.setattr("ottla.storage.producers.producer_replay._WINDOW_BYTES", 10_000)
    disk = SimDisk(Random(1))
    log = open_at(disk, DIRECTORY, config)
    for number in range(2000):
        append(log, batch(value=bytes(100), producer_id=1, epoch=0, sequence=number, time_ms=NOW_MS + number))
        if number % 100 == 99:
            checkpoint(log)
    append(log, batch(value=bytes(100), producer_id=1, epoch=0, sequence=2000))
    crashed = disk.crash(Survival.NONE)
    crashed.corrupt(log.segments.active.path, 100)
    again = open_at(crashed, DIRECTORY, config, LastKnown(recovery_point=2000))
    assert again.log_end_offset == 2001
    assert crashed.bytes_read < log.size_bytes / 2
    found = again.max_timestamp()
    assert found is not None
    assert found.offset == 1999
    entry = again.producers.get(1)
    assert entry is not None
    assert entry.last_sequence == 2000
    assert len([name for name in crashed.listdir(DIRECTORY) if name.endswith(".snapshot")]) <= 2


def test_a_wrong_index_does_not_lose_synced_records() -> None:
    disk, log = filled(40, LogConfig(index_interval_bytes=100))
    log.segments.active.sync_indexes()
    path = log.segments.active.path.replace(".log", ".index")
    index = bytearray(disk.read(path))
    index[-1] ^= 3
    disk.replace(path, bytes(index))
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(recovery_point=40))
    assert again.log_end_offset == 40
    assert offsets(again) == [(number, number) for number in range(40)]


def test_a_clean_stop_needs_no_scan() -> None:
    disk, log = filled(10)
    log.close(NOW_MS)
    disk.corrupt(log_path(log.segments.first.base_offset), 90)
    before = len(disk.trace)
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(clean=True, recovery_point=10))
    assert again.log_end_offset == 10
    assert disk.trace[before:] == []
    entry = again.producers.get(1)
    assert entry is not None
    assert entry.last_sequence == 9


def test_a_hole_after_a_lost_tail_is_the_end() -> None:
    disk, log = filled(10)
    first, second = log.segments[0], log.segments[1]
    place = first.find(second.base_offset - 1, first.written_size)
    assert place is not None
    disk.open(first.path).truncate(place.position)
    assert open_at(disk.crash(Survival.ALL), DIRECTORY, SMALL).log_end_offset == second.base_offset - 1
    compacted = LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"}))
    assert open_at(disk.crash(Survival.ALL), DIRECTORY, compacted).log_end_offset == 10


def test_unsynced_writes_leave_a_first_part_of_the_log() -> None:
    ends = set()
    for seed in range(60):
        disk, log = filled(8, UNFLUSHED)
        disk._rng = Random(seed)
        append(log, flush=False)
        log.append(batch(value=bytes(30)), 2, NOW_MS)
        job = log.take_staged()
        assert job is not None
        job.run()
        crashed = open_at(disk.crash(), DIRECTORY, UNFLUSHED)
        assert offsets(crashed) == [(number, number) for number in range(crashed.log_end_offset)]
        ends.add(crashed.log_end_offset)
    assert ends == {8, 9}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt(suffix: str) -> None:
    disk, log = filled(10)
    log.close(NOW_MS)
    path = log_path(0).replace(".log", suffix)
    before = disk.read(path)
    disk.remove(path)
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(clean=True))
    assert offsets(again) == [(number, number) for number in range(10)]
    again.segments.first.sync_indexes()
    assert disk.read(path) == before


def test_aborted_transactions_are_known_again() -> None:
    disk = SimDisk(Random(1))
    log = open_at(disk, DIRECTORY, SMALL)
    for number in range(4):
        append(log, batch(2, producer_id=3, epoch=0, sequence=number * 2, transactional=True))
        append(log, marker(3, 0, committed=number % 2 == 0), batch(value=bytes(50)))
    before = log.aborted_transactions(0, 100)
    assert len(before) == 2
    checkpoint(log)
    for point in (0, 5, log.log_end_offset):
        again = open_at(disk.crash(Survival.NONE), DIRECTORY, SMALL, LastKnown(recovery_point=point))
        assert again.aborted_transactions(0, 100) == before
    damaged = disk.crash(Survival.ALL)
    log.close(NOW_MS)
    stopped = disk.crash(Survival.NONE)
    assert open_at(stopped, DIRECTORY, SMALL, LastKnown(clean=True)).aborted_transactions(0, 100) == before
    (torn, *_) = [name for name in stopped.listdir(DIRECTORY) if name.endswith(".txnindex")]
    stopped.replace(f"{DIRECTORY}/{torn}", b"torn")
    assert open_at(stopped, DIRECTORY, SMALL, LastKnown(clean=True)).aborted_transactions(0, 100) == before
    assert open_at(damaged, DIRECTORY, SMALL).aborted_transactions(0, 100) == before


def test_a_log_start_above_the_end_begins_anew() -> None:
    disk, _ = filled(3)
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(log_start_offset=20))
    assert (again.log_start_offset, again.log_end_offset) == (20, 20)
    append(again, batch())
    assert offsets(open_at(disk.crash(Survival.NONE), DIRECTORY, SMALL)) == [(20, 20)]


@pytest.mark.parametrize("last", [LastKnown(recovery_point=10), LastKnown(clean=True), LastKnown()], ids=str)
@pytest.mark.parametrize("content", [b"nonsense", b"", b"0\n0\n", None])
def test_a_damaged_epoch_file_is_made_anew(content: bytes | None, last: LastKnown) -> None:
    """Without its epochs a follower would not notice that its records are not those of the leader."""
    disk, log = filled(10)
    checkpoint(log)
    entries = log.epochs.entries()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    if content is None:
        disk.remove(path)
    else:
        disk.replace(path, content)
    again = open_at(disk, DIRECTORY, SMALL, last)
    assert again.epochs.entries() == entries


def test_files_on_their_way_out_are_removed() -> None:
    disk, log = filled(10)
    log.close(NOW_MS)
    kept = disk.listdir(DIRECTORY)
    for name in (
        f"{0:020d}.log.deleted",
        f"{3:020d}.log.cleaned",
        f"{3:020d}.index.swap",
        f"{77:020d}.index",
        "leader-epoch-checkpoint.tmp",
    ):
        disk.replace(f"{DIRECTORY}/{name}", b"")
    disk.replace(f"{DIRECTORY}/{9:020d}-0000000001.checkpoint.deleted", b"")
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(clean=True))
    assert again.log_end_offset == 10
    assert disk.listdir(DIRECTORY) == sorted([*kept, f"{9:020d}-0000000001.checkpoint.deleted"])


def test_an_exchange_of_segments_is_finished() -> None:
    disk, log = filled(10)
    bases = [segment.base_offset for segment in log.segments]
    data = b"".join(segment.file.pread(segment.size, 0) for segment in log.segments[0:2])
    log.close(NOW_MS)
    disk.replace(f"{log_path(0)}.swap", data)
    again = open_at(disk, DIRECTORY, SMALL, LastKnown(clean=True))
    assert [segment.base_offset for segment in again.segments] == [bases[0], *bases[2:]]
    assert offsets(again) == [(number, number) for number in range(10)]


@pytest.mark.parametrize("position", [200, 1_300_000, 2_500_000])
def test_damage_anywhere_in_a_batch_of_several_chunks_is_found(position: int) -> None:
    disk = SimDisk(Random(1))
    append(open_at(disk, DIRECTORY), batch(), batch(value=bytes(2_600_000)), batch())
    disk.corrupt(log_path(0), position)
    assert offsets(open_at(disk, DIRECTORY)) == [(0, 0)]


def test_a_failing_disk_is_a_storage_fault() -> None:
    disk, _ = filled(3)
    disk.fail_at(0, errno.EIO)
    with pytest.raises(StorageFault) as caught:
        open_at(disk, DIRECTORY, SMALL)
    assert caught.value.directory == "/data"


def test_the_same_on_a_real_disk(tmp_path: Path) -> None:
    directory = f"{tmp_path}/topic-0"
    log = open_at(OsDisk(), directory, SMALL)
    append(log, *[batch(value=bytes(40), producer_id=1, epoch=0, sequence=number) for number in range(10)])
    with Path(log.segments.active.path).open("ab") as file:
        file.write(b"torn")
    again = open_at(OsDisk(), directory, SMALL, LastKnown(recovery_point=4))
    assert offsets(again) == [(number, number) for number in range(10)]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_older_than_batches_are_refused_and_left_alone(magic: int) -> None:
    disk, _ = filled(1)
    body = (
        struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW_MS) if magic else b"") + struct.pack(">i", -1)
    )
    body += struct.pack(">i", 5) + b"value"
    old = struct.pack(">qiI", 1, len(body) + 4, zlib.crc32(body)) + body
    file = disk.open(log_path(0))
    file.pwritev([old], file.size(), sync=True)
    before = disk.read(log_path(0))

    with pytest.raises(LocalError, match=f"format {magic}"):
        open_at(disk, DIRECTORY, SMALL)

    assert disk.read(log_path(0)) == before

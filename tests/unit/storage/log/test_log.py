from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation, StorageFault
from ottla.base.files import OsDisk
from ottla.base.rng import Random
from ottla.records.batch import TimestampType, iter_batches, read_header, stamp
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.storage.commit.write_job import COPY_BYTES_MAX
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown
from ottla.testing.disk import SimDisk, Survival
from tests.support.logs import (
    NOW_MS,
    append,
    batch,
    checkpoint,
    delete_old,
    headers,
    marker,
    offsets,
    open_at,
    remove_due,
    restart,
    truncate,
    valid,
)

DIRECTORY = "/data/topic-0"


def sim_log(**settings: object) -> tuple[SimDisk, Log]:
    disk = SimDisk(Random(1))
    return disk, open_at(disk, DIRECTORY, LogConfig(**settings))  # type: ignore[arg-type]


# --- appending ---


def test_batches_get_the_next_offsets(tmp_path: Path) -> None:
    log = open_at(OsDisk(), f"{tmp_path}/topic-0")
    placed = append(log, batch(3), batch(1), batch(2), leader_epoch=4)
    assert [(each.base_offset, each.last_offset) for each in placed] == [(0, 2), (3, 3), (4, 5)]
    assert log.log_end_offset == 6
    found = headers(log)
    assert [header.base_offset for header in found] == [0, 3, 4]
    assert {header.partition_leader_epoch for header in found} == {4}
    assert log.latest_epoch == 4


def test_the_producers_bytes_are_not_changed() -> None:
    _, log = sim_log()
    append(log, batch(5))
    small, large = batch(), batch(value=bytes(COPY_BYTES_MAX))
    before = bytes(small.data), bytes(large.data)
    append(log, small, large, leader_epoch=3)
    assert (bytes(small.data), bytes(large.data)) == before
    stored = [bytes(data) for _, data in log.batches(5, upto=7)]
    expected = [bytearray(each) for each in before]
    stamp(expected[0], 5, 3)
    stamp(expected[1], 6, 3)
    assert stored == [bytes(each) for each in expected]


def test_small_batches_may_change_after_the_append() -> None:
    _, log = sim_log()
    made = batch(value=b"before")
    log.append(made, 0, NOW_MS)
    made.data[-8:] = b"X" * 8
    log.flush(NOW_MS)
    ((_, data),) = log.batches(0, upto=1)
    assert b"before" in bytes(data)


def test_log_append_time_is_returned() -> None:
    _, log = sim_log()
    stamped = batch(time_ms=123, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [each.log_append_time_ms for each in append(log, batch(), stamped)] == [-1, 123]


def test_a_batch_longer_than_a_segment_is_refused() -> None:
    _, log = sim_log(segment_bytes=200)
    with pytest.raises(ApiError) as caught:
        log.append(batch(value=bytes(200)), 0, NOW_MS)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_retry_returns_the_first_offset() -> None:
    _, log = sim_log()
    first = batch(2, producer_id=7, epoch=0, sequence=0)
    append(log, first, batch(2, producer_id=7, epoch=0, sequence=2))
    (again,) = append(log, first)
    assert (again.base_offset, again.last_offset, again.duplicate) == (0, 1, True)
    assert again.log_append_time_ms == NOW_MS
    assert log.log_end_offset == 4


def test_a_gap_in_the_sequence_is_refused() -> None:
    _, log = sim_log()
    append(log, batch(2, producer_id=7, epoch=0, sequence=0))
    with pytest.raises(ApiError) as caught:
        log.append(batch(producer_id=7, epoch=0, sequence=3), 0, NOW_MS)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 2


def test_raw_batches_keep_their_offsets() -> None:
    _, log = sim_log()
    data = build_batch([NewRecord(None, b"a"), NewRecord(None, b"b")], base_offset=10, leader_epoch=2)
    data += build_batch([NewRecord(None, b"c")], base_offset=15, leader_epoch=3)
    placed = log.append_raw(data, NOW_MS)
    log.flush(NOW_MS)
    assert (placed.base_offset, placed.last_offset) == (10, 15)
    assert log.log_end_offset == 16
    assert log.read_bytes(0, 1000, upto=16) == data
    assert [tuple(entry) for entry in log.epochs.entries()] == [(2, 10), (3, 15)]


def test_raw_batches_must_be_sound_and_in_order() -> None:
    _, log = sim_log()
    good = build_batch([NewRecord(None, b"a")], base_offset=5)
    log.append_raw(good, NOW_MS)
    broken = bytearray(build_batch([NewRecord(None, b"a")], base_offset=6))
    broken[-1] ^= 1
    behind = build_batch([NewRecord(None, b"a")], base_offset=5)
    for data in (b"", bytes(broken), good[:-1], behind + b"rest"):
        with pytest.raises(ApiError):
            log.append_raw(data, NOW_MS)
    with pytest.raises(ApiError, match="was received where 6 is next"):
        log.append_raw(behind, NOW_MS)
    assert log.log_end_offset == 6


# --- rolling ---


def test_a_full_segment_is_rolled() -> None:
    disk, log = sim_log(segment_bytes=300)
    for _ in range(6):
        append(log, batch(value=bytes(60)))
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 2, 4]
    assert all(segment.size <= 300 for segment in log.segments)
    assert {name for name in disk.listdir(DIRECTORY) if name.startswith("00000000000000000002")} == {
        "00000000000000000002.log",
        "00000000000000000002.snapshot",
    }
    checkpoint(log)
    assert {name for name in disk.listdir(DIRECTORY) if name.startswith("00000000000000000002")} == {
        "00000000000000000002.index",
        "00000000000000000002.log",
        "00000000000000000002.snapshot",
        "00000000000000000002.timeindex",
    }


def test_segments_roll_on_record_time() -> None:
    _, log = sim_log(segment_ms=1000)
    append(log, batch(time_ms=5000), batch(time_ms=6000), batch(time_ms=6001), batch(time_ms=100))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_a_time_roll_on_the_clock() -> None:
    _, log = sim_log(segment_ms=1000)
    log.append(batch(time_ms=-1), 0, NOW_MS)
    log.append(batch(time_ms=-1), 0, NOW_MS + 1000)
    assert len(log.segments) == 1
    log.append(batch(time_ms=-1), 0, NOW_MS + 1001)
    assert len(log.segments) == 2


def test_jitter_makes_segments_roll_earlier() -> None:
    _, log = sim_log(segment_ms=1000, segment_jitter_ms=900)
    log.roll(NOW_MS)
    append(log, batch(time_ms=0))
    log.roll(NOW_MS)
    append(log, batch(time_ms=0), batch(time_ms=999))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_a_full_index_is_rolled() -> None:
    _, log = sim_log(index_interval_bytes=1, segment_index_bytes=36)
    for number in range(10):
        append(log, batch(time_ms=NOW_MS + number))
    assert len(log.segments) > 1
    assert all(segment.time_index.entry_count <= 3 for segment in log.segments)
    assert offsets(log) == [(number, number) for number in range(10)]


def test_an_offset_out_of_reach_is_rolled() -> None:
    _, log = sim_log()
    log.append_raw(build_batch([NewRecord(None, b"a")]), NOW_MS)
    log.append_raw(build_batch([NewRecord(None, b"a")], base_offset=2**31), NOW_MS)
    log.append_raw(build_batch([NewRecord(None, b"a")], base_offset=2**33), NOW_MS)
    log.flush(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**33]
    assert [first for first, _ in offsets(log)] == [0, 2**31, 2**33]


# --- writing ---


def test_staged_bytes_are_not_read() -> None:
    _, log = sim_log()
    append(log, batch(2), batch(2), flush=False)
    assert (log.log_end_offset, log.readable_offset, log.flushed_offset) == (4, 0, 0)
    assert log.read(0, 1000, upto=4).size == 0
    job = log.take_staged()
    assert job is not None
    append(log, batch(2), flush=False)
    assert log.take_staged() is None
    job.run()
    assert log.read(0, 1000, upto=6).size == 0
    log.written(job, NOW_MS)
    assert (log.readable_offset, log.flushed_offset) == (4, 4)
    data = log.read(0, 1000, upto=6).read()
    assert [header.last_offset for _, header in iter_batches(data)] == [1, 3]
    log.flush(NOW_MS)
    assert log.readable_offset == 6


def test_a_slice_ends_where_the_written_bytes_end() -> None:
    """Also if a job has written more that it has not reported yet."""
    _, log = sim_log()
    append(log, batch(2))
    written = log.segments.active.written_size
    append(log, batch(2), flush=False)
    job = log.take_staged()
    assert job is not None
    job.run()
    assert log.read(0, 1000, upto=4).size == written


def test_everything_appended_meanwhile_is_one_write() -> None:
    disk, log = sim_log()
    append(log, batch())
    before = len(disk.trace)
    append(log, *[batch() for _ in range(50)])
    assert [change.kind for change in disk.trace[before:]] == ["write"]
    assert disk.trace[-1].sync


def test_a_sync_is_due_after_flush_messages() -> None:
    disk, log = sim_log(flush_messages=5)
    sizes = []
    for _ in range(3):
        log.append(batch(2), 0, NOW_MS)
        job = log.take_staged()
        assert job is not None
        job.run()
        log.written(job, NOW_MS)
        sizes.append((log.readable_offset, log.flushed_offset))
    assert sizes == [(2, 0), (4, 0), (6, 6)]
    crashed = open_at(disk.crash(Survival.NONE), DIRECTORY)
    assert crashed.log_end_offset == 6


def test_a_flush_job_syncs_what_is_written() -> None:
    disk, log = sim_log(flush_messages=2**63 - 1, segment_bytes=150)
    append(log, batch(), batch(), batch(), flush=False)
    job = log.take_staged()
    assert job is not None
    assert not job.sync
    job.run()
    log.written(job, NOW_MS)
    sealed = log.take_flush(sealed_only=True)
    assert sealed is not None
    assert log.take_flush() is None
    sealed.run()
    log.flushed(sealed, NOW_MS)
    assert log.flushed_offset == 2
    assert open_at(disk.crash(Survival.NONE), DIRECTORY).log_end_offset == 2
    assert log.take_flush(sealed_only=True) is None
    rest = log.take_flush()
    assert rest is not None
    rest.run()
    log.flushed(rest, NOW_MS)
    assert (log.flushed_offset, log.last_flush_ms) == (3, NOW_MS)
    assert open_at(disk.crash(Survival.NONE), DIRECTORY).log_end_offset == 3


def test_a_segment_is_durable_before_the_next_is_written() -> None:
    disk, log = sim_log(segment_bytes=150)
    append(log, batch())
    before = len(disk.trace)
    append(log, batch(), batch())
    kinds = [(change.kind, change.sync) for change in disk.trace[before:] if change.inode or change.path]
    writes = [number for number, kind in enumerate(kinds) if kind == ("write", True)]
    assert ("sync_dir", False) in kinds[writes[0] - 1 : writes[1]]


def test_a_failed_write_takes_the_log_offline() -> None:
    disk, log = sim_log()
    append(log, batch())
    log.append(batch(), 0, NOW_MS)
    job = log.take_staged()
    assert job is not None
    disk.fail_at(0, errno.ENOSPC)
    with pytest.raises(StorageFault) as caught:
        job.run()
    assert caught.value.directory == "/data"
    log.fail()
    for operation in (lambda: log.append(batch(), 0, NOW_MS), lambda: log.read(0, 1, upto=1)):
        with pytest.raises(ApiError) as refused:
            operation()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log.close(NOW_MS)
    assert open_at(disk.crash(Survival.ALL), DIRECTORY).log_end_offset == 1


def test_a_roll_that_fails_takes_the_log_offline() -> None:
    disk, log = sim_log(segment_bytes=100)
    append(log, batch())
    disk.fail_at(0)
    with pytest.raises(StorageFault):
        log.append(batch(), 0, NOW_MS)
    assert log.offline


# --- reading ---


def test_a_fetch_starts_with_the_batch_that_holds_the_offset() -> None:
    _, log = sim_log(index_interval_bytes=100)
    append(log, *[batch(3) for _ in range(30)])
    for offset in range(90):
        found = log.read(offset, 10_000, upto=90)
        first = next(iter_batches(found.read()))[1]
        assert first.base_offset == offset - offset % 3
    assert log.read(90, 10_000, upto=90).size == 0


def test_the_first_batch_is_whole_if_one_is_wanted() -> None:
    _, log = sim_log()
    append(log, batch(value=bytes(100)), batch(value=bytes(100)))
    size = log.read(0, 10_000, upto=2).size // 2
    assert log.read(0, 0, upto=2).size == size
    assert log.read(0, size - 1, upto=2).size == size
    assert log.read(0, size + 10, upto=2).size == size + 10
    assert log.read(0, size - 1, upto=2, min_one=False).size == 0
    assert log.read(0, size, upto=2, min_one=False).size == size


def test_a_fetch_ends_at_the_limit() -> None:
    _, log = sim_log(index_interval_bytes=100)
    append(log, *[batch(2) for _ in range(20)])
    for upto in range(2, 41, 2):
        data = log.read(0, 100_000, upto=upto).read()
        assert [header.last_offset for _, header in iter_batches(data)][-1] == upto - 1
        assert log.read(0, 100_000, upto=upto).size == len(data)
    assert log.read(10, 1000, upto=10).size == 0
    assert log.read(10, 1000, upto=4).size == 0


def test_a_fetch_never_crosses_a_segment() -> None:
    _, log = sim_log(segment_bytes=300)
    append(log, *[batch(value=bytes(60)) for _ in range(6)])
    found = [header.base_offset for _, header in iter_batches(log.read(0, 10_000, upto=6).read())]
    assert found == [0, 1]


def test_offsets_out_of_range_are_refused() -> None:
    _, log = sim_log()
    append(log, batch(5))
    log.high_watermark = 5
    log.increment_log_start_offset(2)
    for offset in (-1, 1, 6):
        with pytest.raises(ApiError) as caught:
            log.read(offset, 100, upto=5)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_hole_is_skipped() -> None:
    _, log = sim_log(segment_bytes=150)
    for base in (0, 10, 50):
        log.append_raw(build_batch([NewRecord(None, bytes(40))], base_offset=base), NOW_MS)
    log.flush(NOW_MS)
    assert read_header(log.read(11, 1000, upto=51).read()).base_offset == 50
    assert read_header(log.read(5, 1000, upto=51).read()).base_offset == 10
    assert log.read(5, 1000, upto=9).size == 0


# --- by time ---


def test_finding_records_by_time() -> None:
    _, log = sim_log(segment_bytes=400, index_interval_bytes=100)
    for number in range(20):
        append(log, batch(3, time_ms=1000 + number * 30, step_ms=10))
    for offset in range(60):
        found = log.offset_for_timestamp(1000 + offset * 10)
        assert found is not None
        assert (found.offset, found.timestamp) == (offset, 1000 + offset * 10)
    assert log.offset_for_timestamp(1591) is None
    between = log.offset_for_timestamp(1001)
    assert between is not None
    assert between.offset == 1


def test_finding_records_in_packed_batches_and_after_the_log_start() -> None:
    _, log = sim_log()
    records = [NewRecord(None, b"v", timestamp=time) for time in (50, 40, 70)]
    append(log, valid(build_batch(records, codec=Codec.ZSTD)), leader_epoch=9)
    found = log.offset_for_timestamp(45)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (0, 50, 9)
    log.high_watermark = 3
    log.increment_log_start_offset(1)
    later = log.offset_for_timestamp(45)
    assert later is not None
    assert (later.offset, later.timestamp) == (2, 70)


def test_the_first_of_the_latest_records() -> None:
    _, log = sim_log(segment_bytes=400)
    assert log.max_timestamp() is None
    append(log, batch(time_ms=5), batch(3, time_ms=8, step_ms=0), batch(time_ms=7), leader_epoch=1)
    found = log.max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (1, 8, 1)
    log.append(batch(time_ms=100), 1, NOW_MS)
    unwritten = log.max_timestamp()
    assert unwritten is not None
    assert unwritten.timestamp == 8


def test_log_append_time_counts_for_every_record() -> None:
    _, log = sim_log()
    append(log, batch(3, time_ms=500, timestamp_type=TimestampType.LOG_APPEND_TIME))
    found = log.offset_for_timestamp(500)
    assert found is not None
    assert (found.offset, found.timestamp) == (0, 500)


# --- transactions ---


def test_the_last_stable_offset_waits_for_transactions() -> None:
    _, log = sim_log()
    append(log, batch(2), batch(2, producer_id=1, epoch=0, sequence=0, transactional=True), batch(2))
    log.high_watermark = 6
    assert log.last_stable_offset == 2
    append(log, marker(1, 0, committed=False))
    assert log.last_stable_offset == 2
    log.high_watermark = 7
    assert log.last_stable_offset == 7
    assert [tuple(each) for each in log.aborted_transactions(0, 7)] == [(1, 2, 6, 7)]
    assert log.aborted_transactions(0, 2) == []


# --- cutting ---


def test_truncation_forgets_records_epochs_and_sequences() -> None:
    disk, log = sim_log(segment_bytes=300, index_interval_bytes=100)
    for number in range(20):
        made = batch(value=bytes(30), producer_id=1, epoch=0, sequence=number, time_ms=NOW_MS + number)
        append(log, made, leader_epoch=number // 5)
    log.high_watermark = 20
    assert not truncate(log, 20, NOW_MS)
    assert truncate(log, 7, NOW_MS)
    assert (log.log_end_offset, log.readable_offset, log.flushed_offset, log.high_watermark) == (7, 7, 7, 7)
    assert [tuple(entry) for entry in log.epochs.entries()] == [(0, 0), (1, 5)]
    assert offsets(open_at(disk.crash(Survival.NONE), DIRECTORY)) == [(n, n) for n in range(7)]
    with pytest.raises(ApiError):
        log.append(batch(producer_id=1, epoch=0, sequence=8), 1, NOW_MS)
    (placed,) = append(log, batch(producer_id=1, epoch=0, sequence=7), leader_epoch=1)
    assert placed.base_offset == 7
    assert offsets(log) == [(n, n) for n in range(8)]
    found = log.max_timestamp()
    assert found is not None
    assert found.offset == 6


def test_truncation_below_the_start_begins_anew() -> None:
    disk, log = sim_log(segment_bytes=150)
    restart(log, 100, NOW_MS)
    assert (log.readable_offset, log.committable_offset, log.flushed_offset) == (100, 100, 100)
    assert (log.latest_epoch, log.epochs.entries()) == (-1, [])
    append(log, batch(), batch())
    assert truncate(log, 50, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    append(log, batch())
    assert offsets(log) == [(50, 50)]
    assert offsets(open_at(disk.crash(Survival.NONE), DIRECTORY)) == [(50, 50)]


def test_cutting_demands_that_no_job_is_outstanding() -> None:
    _, log = sim_log()
    append(log, batch(), batch(), flush=False)
    assert log.take_staged() is not None
    with pytest.raises(InvariantViolation):
        truncate(log, 1, NOW_MS)


def test_the_log_start_moves_up_to_the_high_watermark() -> None:
    _, log = sim_log()
    append(log, batch(5))
    append(log, batch(5), leader_epoch=1)
    log.high_watermark = 7
    with pytest.raises(ApiError) as caught:
        log.increment_log_start_offset(8)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.increment_log_start_offset(6)
    assert not log.increment_log_start_offset(6)
    assert log.log_start_offset == 6
    assert [tuple(entry) for entry in log.epochs.entries()] == [(1, 6)]


def test_retention_by_size_takes_the_oldest() -> None:
    disk, log = sim_log(segment_bytes=300, retention_bytes=500, file_delete_delay_ms=100)
    append(log, *[batch(value=bytes(60)) for _ in range(10)])
    log.high_watermark = 10
    held = log.read(0, 1000, upto=10)
    content = held.read()
    assert delete_old(log, NOW_MS) == 3
    assert log.log_start_offset == 6
    assert held.read() == content
    assert f"{0:020d}.log.deleted" in disk.listdir(DIRECTORY)
    assert remove_due(log, NOW_MS + 99) == 0
    assert remove_due(log, NOW_MS + 100) == 3
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".deleted")]
    assert open_at(disk.crash(Survival.NONE), DIRECTORY).log_start_offset == 6


def test_retention_by_time_empties_even_the_active_segment() -> None:
    _, log = sim_log(retention_ms=1000)
    append(log, batch(time_ms=NOW_MS - 2000), batch(time_ms=NOW_MS - 1001))
    assert delete_old(log, NOW_MS) == 0
    log.high_watermark = 2
    assert delete_old(log, NOW_MS) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (2, 2, 0)
    assert delete_old(log, NOW_MS) == 0
    (placed,) = append(log, batch())
    assert placed.base_offset == 2


def test_the_high_watermark_stays_within_the_log() -> None:
    _, log = sim_log()
    append(log, batch(3))
    with pytest.raises(InvariantViolation):
        log.high_watermark = 4
    log.high_watermark = 3
    assert log.high_watermark == 3


def test_settings_change_while_running() -> None:
    _, log = sim_log()
    append(log, batch(), batch())
    log.reconfigure(LogConfig(segment_bytes=100))
    append(log, batch(), batch())
    assert [segment.base_offset for segment in log.segments] == [0, 2, 3]


def test_nothing_is_readable_while_a_truncation_runs() -> None:
    _, log = sim_log()
    append(log, *[batch() for _ in range(4)])
    log.high_watermark = 4
    job = log.take_truncation(2, NOW_MS)
    assert job is not None
    assert [log.read(offset, 1000, upto=4).size for offset in range(4)] == [0, 0, 0, 0]
    assert (log.flushed_offset, log.job_outstanding) == (2, True)
    log.perform(job)
    assert offsets(log) == [(0, 0), (1, 1)]
    assert not log.job_outstanding


def test_records_are_appended_while_a_checkpoint_runs() -> None:
    disk, log = sim_log(segment_bytes=300, index_interval_bytes=100)
    append(log, *[batch(value=bytes(60)) for _ in range(5)])
    job = log.take_checkpoint()
    assert job is not None
    append(log, *[batch(value=bytes(60)) for _ in range(5)])
    log.perform(job)
    again = log.take_checkpoint()
    assert again is not None
    log.perform(again)
    assert log.take_checkpoint() is None
    found = open_at(disk.crash(Survival.NONE), DIRECTORY, last=LastKnown(recovery_point=10))
    assert offsets(found) == [(number, number) for number in range(10)]


def test_a_log_that_has_not_changed_is_closed_without_a_write() -> None:
    disk, log = sim_log()
    append(log, batch())
    log.close(NOW_MS)
    again = open_at(disk, DIRECTORY, last=LastKnown(clean=True, recovery_point=1))
    before = len(disk.trace)
    again.close(NOW_MS)
    assert len(disk.trace) == before

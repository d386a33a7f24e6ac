from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.base.errors import StorageFault
from ottla.base.files import OsDisk
from ottla.records.batch import BatchHeader, TimestampType, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.storage.cleaning.cleaner import CleanerConfig
from ottla.storage.cleaning.cleaner_job import CleanerJob
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.recovery.recovery import LastKnown
from tests.support.cleaning import PARTITION, CleanedLog
from tests.support.logs import delete_old, remove_due


def log_at(path: Path, *, cleaner: CleanerConfig | None = None, **settings: object) -> CleanedLog:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return CleanedLog(OsDisk(), str(path), settings=named, cleaner=cleaner)


def headers(log: CleanedLog) -> list[BatchHeader]:
    return [header for header, _ in log.batches()]


def files(path: Path) -> list[str]:
    return sorted(
        file.name
        for file in (path / str(PARTITION)).iterdir()
        if file.suffix in (".log", ".cleaned", ".swap", ".deleted")
    )


def test_the_last_value_of_each_key_stays(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    log.write((b"c", b"1"), (b"b", b"2"))
    log.roll()
    log.write((b"a", b"3"))
    log.clean()
    assert [(r.offset, r.key, r.value) for r in log.records()] == [
        (2, b"a", b"2"),
        (3, b"c", b"1"),
        (4, b"b", b"2"),
        (5, b"a", b"3"),
    ]
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\ncompacted 0 5\n"
    assert log.faults == []


def test_segments_are_exchanged_only_when_no_job_of_the_log_runs(tmp_path: Path) -> None:
    """A checkpoint that runs meanwhile would write the index of a segment over that of its replacement."""
    log = log_at(tmp_path)
    log.write((b"a", b"1"), (b"a", b"2"))
    log.roll()
    log.write((b"b", b"1"))
    job = log.log.take_checkpoint()
    assert job is not None
    log.cleaner.start()
    for _ in range(20):
        log.time.fire()
    assert [record.value for record in log.records()] == [b"1", b"2", b"1"]
    job.run()
    log.log.finished(job)
    while len(log.records()) == 3:
        log.time.fire()
    assert [record.value for record in log.records()] == [b"2", b"1"]
    assert log.faults == []


def test_a_batch_keeps_its_place_and_its_records_their_time(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec=Codec.ZSTD, producer_id=4, epoch=1, sequence=7)
    log.roll()
    log.clean()
    (header,) = headers(log)
    assert (header.base_offset, header.last_offset, header.records_count) == (0, 2, 2)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (4, 1, 9)
    assert header.compression == Codec.ZSTD
    assert [record.timestamp for record in log.records()] == [1_000_001, 1_000_002]
    assert header.max_timestamp == 1_000_002


def test_a_batch_that_loses_nothing_is_not_touched(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"), codec=Codec.GZIP)
    log.write((b"b", b"1"))
    log.roll()
    before = [batch for _, batch in log.batches()]
    log.clean()
    assert [batch for _, batch in log.batches()] == before


def test_cleaned_parts_are_cleaned_against_newer_records(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"), (b"b", b"1"))
    log.roll()
    log.clean()
    log.write((b"a", b"2"))
    log.roll()
    log.clean()
    assert log.keys() == [(1, b"b"), (2, b"a")]


def test_the_active_segment_is_never_touched(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.write((b"a", b"2"))
    assert log.clean() == 0
    assert log.keys() == [(0, b"a"), (1, b"a")]


def test_nothing_above_the_high_watermark_is_touched(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.roll()
    log.write((b"a", b"2"))
    log.roll()
    log.log.high_watermark = 1
    log.clean()
    assert log.keys() == [(0, b"a"), (1, b"a")]
    log.log.high_watermark = 2
    log.clean()
    assert log.keys() == [(1, b"a")]


def test_records_without_a_key_go(tmp_path: Path) -> None:
    """They can only come from a time when the topic was not compacted."""
    log = log_at(tmp_path)
    log.write((None, b"1"), (b"a", b"1"))
    log.roll()
    log.clean()
    assert log.keys() == [(1, b"a")]


def test_a_tombstone_is_removed_after_its_retention(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"), (b"b", b"1"))
    log.write((b"a", None), (b"c", b"1"))
    log.roll()
    log.clean()
    assert log.keys() == [(1, b"b"), (2, b"a"), (3, b"c")]
    assert [header.delete_horizon_ms for header in headers(log)] == [None, 1_001_000]
    assert [record.timestamp for record in log.records()] == [1_000_001, 1_000_000, 1_000_001]
    log.time.ms += 999
    log.write((b"x", b"1"))
    log.roll()
    log.clean()
    assert log.records()[1].key == b"a"
    log.time.ms += 1
    log.write((b"x", b"1"))
    log.roll()
    log.clean()
    assert log.keys() == [(1, b"b"), (3, b"c"), (5, b"x")]
    assert [record.timestamp for record in log.records()][1] == 1_000_001
    assert headers(log)[1].delete_horizon_ms == 1_001_000


def test_aborted_records_are_removed_and_their_index_entry_is_kept(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.write((b"a", b"aborted"), (b"b", b"aborted"), producer_id=1, epoch=0, sequence=0, transactional=True)
    log.end_txn(1, 0, committed=False)
    log.roll()
    log.clean()
    assert log.keys() == [(0, b"a")]
    assert [header.is_control for header in headers(log)] == [False, False, True]
    assert headers(log)[1].records_count == 0  # the last batch of a live producer: sequence numbers stay
    assert log.log.aborted_transactions(0, 10) == [AbortedTxn(1, 1, 3, 4)]


def test_a_marker_is_removed_after_its_transaction_and_its_retention(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    for number in range(2):
        log.write((b"k", b"%d" % number), producer_id=1, epoch=0, sequence=number, transactional=True)
        log.end_txn(1, 0, committed=True)
    log.roll()
    log.clean()
    assert [(h.base_offset, h.is_control, h.delete_horizon_ms) for h in headers(log)] == [
        (1, True, None),  # its record went just now
        (2, False, None),
        (3, True, None),
    ]
    log.write((b"x", b"1"))
    log.roll()
    log.clean()
    assert [(h.base_offset, h.delete_horizon_ms) for h in headers(log)][:2] == [(1, 1_001_000), (2, None)]
    log.time.ms += 1_000
    log.write((b"x", b"2"))
    log.roll()
    log.clean()
    assert [h.base_offset for h in headers(log)] == [2, 3, 5]


def test_an_open_transaction_is_out_of_bounds(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.write((b"a", b"2"), producer_id=1, epoch=0, sequence=0, transactional=True)
    log.roll()
    log.write((b"a", b"3"))
    log.roll()
    log.clean()
    assert log.keys() == [(0, b"a"), (1, b"a"), (2, b"a")]


def test_a_live_producer_survives_the_loss_of_its_records(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    for sequence in range(3):
        log.write((b"a", b"1"), producer_id=8, epoch=2, sequence=sequence)
    log.write((b"a", b"2"))
    log.roll()
    log.clean()
    assert log.keys() == [(3, b"a")]
    for snapshot in (tmp_path / str(PARTITION)).glob("*.snapshot"):
        snapshot.unlink()
    again = CleanedLog(OsDisk(), str(tmp_path))
    entry = again.log.producers.get(8)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (2, 2, 2)


def test_small_segments_are_put_together(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    for number in range(5):
        log.write((b"%d" % number, b"v"))
        log.roll()
    log.clean()
    assert [segment.base_offset for segment in log.log.segments] == [0, 5]
    assert log.keys() == [(n, b"%d" % n) for n in range(5)]
    assert log.log.snapshots.offsets == (5,)
    log.time.ms += 60_000
    remove_due(log.log, log.time.ms)
    assert files(tmp_path) == ["00000000000000000000.log", "00000000000000000005.log"]


def test_the_new_segment_ends_where_the_old_ones_did(tmp_path: Path) -> None:
    """Its last batch is kept, empty, though nothing in it is left: that is what recovery goes by."""
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.roll()
    log.write((b"b", b"1"), (b"b", b"2"))
    log.roll()
    log.write((b"b", b"3"))
    log.roll()
    log.log.config = log.log.config.__class__.from_values({"cleanup.policy": "compact", "segment.bytes": 200})
    log.config = log.log.config
    log.clean()
    assert [(h.base_offset, h.last_offset, h.records_count) for h in headers(log)] == [
        (0, 0, 1),
        (1, 2, 0),
        (3, 3, 1),
    ]


def test_a_read_index_is_made_for_the_new_segment(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    for number in range(50):
        log.write((b"%d" % (number % 40), b"v" * 50))
    log.roll()
    log.clean()
    segment = next(iter(log.log.segments))
    assert segment.offset_index.entry_count > 5
    assert segment.time_index.last_entry == (1_000_000, 10)
    found = log.log.read(20, 1, upto=50)
    assert read_header(found.read()).base_offset == 20


def test_a_map_too_small_for_all_keys_takes_several_rounds(tmp_path: Path) -> None:
    log = log_at(tmp_path, cleaner=CleanerConfig(dedupe_buffer_bytes=24 * 15))
    for number in range(60):
        log.write((b"%d" % (number % 20), b"%d" % number))
        if number % 10 == 9:
            log.roll()
    log.clean()
    assert sorted((r.offset, r.key) for r in log.records()) == [(40 + n, b"%d" % n) for n in range(20)]


def test_the_pause_follows_the_rate_and_the_work(tmp_path: Path) -> None:
    log = log_at(tmp_path, cleaner=CleanerConfig(io_max_bytes_per_second=1_000, backoff_ms=7_000))
    log.write((b"a", b"1"))
    size = log.log.segments.active.size
    log.roll()
    log.cleaner.start()
    assert log.time.fire() == pytest.approx(size / 1_000)  # read for the map
    assert log.time.fire() == pytest.approx(2 * size / 1_000)  # read and written
    while log.cleaner.cleaning:
        log.time.fire()
    log.time.fire()
    assert log.time.fire() == 7


def test_new_settings_are_taken_at_once_and_do_not_double_the_rhythm(tmp_path: Path) -> None:
    log = log_at(tmp_path, cleaner=CleanerConfig(backoff_ms=7_000))
    log.cleaner.start()
    log.cleaner.reconfigure(CleanerConfig(backoff_ms=1_000))
    pauses = [log.time.fire() for _ in range(4)]
    assert sorted(pauses) == [0, 1, 1, 7], "the look announced before is passed over"


def test_a_segment_that_went_away_ends_the_cleaning(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.roll()
    log.write((b"b", b"1"))
    log.roll()
    log.write((b"c", b"1"))
    log.cleaner.start()
    log.log.increment_log_start_offset(1)
    assert delete_old(log.log, log.time.ms) == 1
    while log.cleaner.cleaning:
        log.time.fire()
    assert [segment.base_offset for segment in log.log.segments] == [1, 2]
    assert not any(name.endswith(".cleaned") for name in files(tmp_path))
    log.cleaner.stop()
    log.time.waiting.clear()
    log.clean()
    assert log.keys() == [(1, b"b"), (2, b"c")]


def test_a_closed_log_is_left(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.roll()
    log.cleaner.start()
    log.log.closed = True
    while log.cleaner.cleaning:
        log.time.fire()
    assert files(tmp_path) == ["00000000000000000000.log", "00000000000000000001.log"]


def test_damage_makes_a_log_uncleanable_and_nothing_is_lost(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.write((b"a", b"2"))
    log.roll()
    path = tmp_path / str(PARTITION) / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log.clean()
    assert path.read_bytes() == data
    assert files(tmp_path) == ["00000000000000000000.log", "00000000000000000002.log"]
    assert log.cleaner.pick() is None
    assert log.faults == []


@pytest.mark.parametrize(("number", "faults"), [(errno.ENOSPC, 0), (errno.EIO, 1)])
def test_a_full_disk_ends_the_cleaning_a_broken_one_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, faults: int
) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.roll()

    def fail(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(CleanerJob, "_note", fail)
    log.cleaner.start()
    while log.cleaner.cleaning:
        log.time.fire()
    assert [type(fault) for fault in log.faults] == [StorageFault] * faults
    assert not any(name.endswith(".cleaned") for name in files(tmp_path))


def test_checkpoints_follow_truncation_and_deletion(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", b"1"), (b"a", b"2"))
    log.roll()
    log.clean()
    file = tmp_path / "cleaner-offset-checkpoint"
    log.cleaner.truncated(log.log, 5)
    assert file.read_text() == "0\n1\ncompacted 0 2\n"
    log.cleaner.truncated(log.log, 1)
    assert file.read_text() == "0\n1\ncompacted 0 1\n"
    log.cleaner.deleted(log.log)
    assert file.read_text() == "0\n0\n"


def test_the_checkpoint_is_read_and_a_damaged_one_ignored(tmp_path: Path) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ncompacted 0 1\n")
    log = log_at(tmp_path)
    log.write((b"a", b"1"))
    log.roll()
    assert log.cleaner.pick() is None
    (tmp_path / "cleaner-offset-checkpoint").write_text("nonsense")
    again = CleanedLog(OsDisk(), str(tmp_path), last=LastKnown(recovery_point=1))
    again.log.high_watermark = 1
    assert again.cleaner.pick() is not None


def test_other_policies_are_not_cleaned(tmp_path: Path) -> None:
    log = log_at(tmp_path, cleanup_policy="delete")
    log.write((b"a", b"1"))
    log.write((b"a", b"2"))
    log.roll()
    assert log.cleaner.pick() is None


def test_large_batches_do_not_fit_a_step(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.write((b"a", bytes(300_000)), (b"b", b"1"))
    log.write((b"a", b"2"))
    log.roll()
    log.clean()
    assert log.keys() == [(1, b"b"), (2, b"a")]


def test_log_append_time_stays(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.append(
        build_batch(
            [NewRecord(b"a", b"1", timestamp=5), NewRecord(b"b", None, timestamp=6)],
            leader_epoch=0,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            log_append_time=777,
        )
    )
    log.write((b"a", b"2"))
    log.roll()
    log.clean()
    assert [(r.offset, r.timestamp) for r in log.records()] == [(1, 777), (2, 1_000_000)]


def test_an_aborted_transaction_does_not_reach_into_the_next(tmp_path: Path) -> None:
    """The index still lists it when the dirty part, which is read alone, begins behind it."""
    log = log_at(tmp_path)
    log.write((b"a", b"1"), producer_id=1, epoch=0, sequence=0, transactional=True)
    log.end_txn(1, 0, committed=False)
    log.roll()
    log.clean()
    log.write((b"a", b"2"), (b"a", b"3"), producer_id=1, epoch=0, sequence=1, transactional=True)
    log.end_txn(1, 0, committed=True)
    log.roll()
    log.clean()
    assert log.keys() == [(3, b"a")]

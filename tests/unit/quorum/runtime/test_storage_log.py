"""The quorum's log on a simulated disk: offsets, durable appends, reads, epochs, truncation and faults."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import InvariantViolation, RemoteProtocolError
from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.runtime.storage_log import READ_BYTES_MAX, StorageRaftLog
from ottla.storage.log.log_config import LogConfig
from ottla.wire.messages.control import LeaderChangeMessage
from tests.support.raft_log import (
    DIRECTORY,
    Bench,
    content,
    crashed,
    download,
    fetched,
    snapshot_data,
)

# Appends


def test_the_log_must_sync_every_append() -> None:
    bench = Bench()
    bench.storage.reconfigure(LogConfig(flush_messages=2))
    with pytest.raises(InvariantViolation):
        StorageRaftLog(bench.disk, DIRECTORY, bench.storage, bench.executor, bench)


def test_a_log_without_listeners_is_written() -> None:
    bench = Bench()
    log = StorageRaftLog(bench.disk, DIRECTORY, bench.storage, bench.executor, bench)
    log.append(1, [b"a"])
    assert log.durable_offset == 1
    bench.disk.fail_at(0)
    log.append(1, [b"b"])
    assert log.durable_offset == 1


def test_an_append_counts_as_durable_when_it_is_synced() -> None:
    bench = Bench(stepped=True)
    assert bench.log.append(3, [b"a", b"b"]) == 2
    assert bench.offsets == (0, 0, 2)
    assert bench.executor.waiting == 1
    assert bench.durable == []
    assert crashed(bench).log.end_offset == 0
    bench.executor.run_all()
    assert bench.offsets == (0, 2, 2)
    assert not bench.log.writing
    assert bench.durable == [2]
    assert crashed(bench).log.end_offset == 2


def test_appends_during_a_write_share_the_next_write() -> None:
    bench = Bench(stepped=True)
    for value in (b"a", b"b", b"c"):
        bench.append(1, value)
    assert bench.executor.waiting == 1
    assert bench.executor.step()
    assert bench.durable == [1]
    assert bench.log.writing
    assert bench.executor.waiting == 1
    assert bench.executor.step()
    assert bench.durable == [1, 3]
    assert bench.executor.waiting == 0


def test_records_have_the_offset_epoch_and_time_of_their_append() -> None:
    bench = Bench()
    bench.log.append_controls(4, [LeaderChangeMessage(leader_id=2)])
    bench.now = 2000
    assert bench.log.append(5, [b"a", b"b"]) == 3
    headers = [header for header, _ in bench.log.batches(0, 3)]
    assert [(one.base_offset, one.partition_leader_epoch, one.is_control) for one in headers] == [
        (0, 4, True),
        (1, 5, False),
    ]
    assert [one.max_timestamp for one in headers] == [1000, 2000]


def test_the_bytes_since_the_latest_snapshot_are_counted() -> None:
    bench = Bench()
    bench.append(1, b"a")
    size = bench.log.bytes_appended
    assert size == len(bench.log.read(0))
    bench.append(1, b"a")
    assert bench.log.bytes_appended == 2 * size
    bench.snapshot(2, 1)
    assert bench.log.bytes_appended == 0


def test_fetched_batches_are_appended_as_they_are() -> None:
    bench = Bench()
    data = fetched(0, 3, b"a", b"b") + fetched(2, 4, b"c")
    assert bench.log.append_fetched(data) == 3
    assert bench.log.read(0) == data
    assert bench.log.last_epoch == 4


def test_a_torn_last_batch_is_ignored() -> None:
    bench = Bench()
    first, second = fetched(0, 3, b"a"), fetched(1, 3, b"b")
    assert bench.log.append_fetched(first + second[:-1]) == 1
    assert bench.log.append_fetched(second[:40]) == 1
    assert bench.log.append_fetched(b"") == 1
    assert bench.log.read(0) == first


def test_bytes_that_are_no_batch_are_refused() -> None:
    bench = Bench()
    damaged = bytearray(fetched(0, 3, b"a"))
    damaged[16] = 7  # the magic byte
    with pytest.raises(RemoteProtocolError):
        bench.log.append_fetched(bytes(damaged))
    assert bench.log.end_offset == 0


def test_damage_behind_a_whole_batch_does_not_lose_that_batch() -> None:
    bench = Bench()
    damaged = bytearray(fetched(1, 3, b"b"))
    damaged[16] = 7
    assert bench.log.append_fetched(fetched(0, 3, b"a") + damaged) == 1


@pytest.mark.parametrize("offset", [0, 2])
def test_batches_that_do_not_continue_the_log_are_refused(offset: int) -> None:
    bench = Bench()
    bench.append(1, b"a")
    with pytest.raises(RemoteProtocolError, match=f"from offset {offset}, not 1"):
        bench.log.append_fetched(fetched(offset, 1, b"b"))
    assert bench.log.end_offset == 1


def test_batches_with_a_wrong_crc_or_an_older_epoch_are_refused() -> None:
    bench = Bench()
    bench.append(5, b"a")
    damaged = bytearray(fetched(1, 5, b"b"))
    damaged[-1] ^= 0xFF
    for data in (bytes(damaged), fetched(1, 4, b"b")):
        with pytest.raises(RemoteProtocolError):
            bench.log.append_fetched(data)
    assert bench.log.end_offset == 1


# Reads


def test_batches_are_read_from_an_offset_on() -> None:
    bench = Bench()
    bench.append(1, b"a", b"b")
    bench.append(1, b"c")
    assert content(bench.log.read(0)) == [(0, 1, [b"a", b"b"]), (2, 1, [b"c"])]
    assert content(bench.log.read(2)) == [(2, 1, [b"c"])]
    assert bench.log.read(3) == b""


def test_batches_are_read_before_they_are_written() -> None:
    """A leader replicates a batch while its own disk syncs it."""
    bench = Bench(stepped=True)
    bench.append(1, b"a")
    bench.append(1, b"b")
    assert content(bench.log.read(0)) == [(0, 1, [b"a"]), (1, 1, [b"b"])]
    assert content(bench.log.read(1)) == [(1, 1, [b"b"])]
    assert list(bench.log.batches(0, 2)) == []
    bench.executor.step()
    assert content(bench.log.read(0)) == [(0, 1, [b"a"])]
    assert content(bench.log.read(1)) == [(1, 1, [b"b"])]
    assert [header.base_offset for header, _ in bench.log.batches(0, 2)] == [0]
    bench.executor.run_all()
    bench.append(1, b"c")
    assert content(bench.log.read(2)) == [(2, 1, [b"c"])]
    assert [header.base_offset for header, _ in bench.log.batches(0, 3)] == [0, 1]


def test_batches_stop_at_the_offset_that_is_given() -> None:
    bench = Bench()
    for value in (b"a", b"b", b"c"):
        bench.append(1, value)
    assert [header.base_offset for header, _ in bench.log.batches(1, 2)] == [1]


def test_a_read_returns_4_mebibytes_at_most() -> None:
    assert READ_BYTES_MAX == 4 * 1024 * 1024
    bench = Bench()
    value = bytes(900_000)
    for _ in range(6):
        bench.append(1, value)
    assert len(content(bench.log.read(0))) == READ_BYTES_MAX // len(value)


# Epochs


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    bench = Bench()
    for epoch in (3, 3, 5, 8):
        bench.append(epoch, b"v")
    assert [bench.log.end_of_epoch(epoch) for epoch in (3, 4, 5, 7, 8, 9)] == [
        (2, 3),
        (2, 3),
        (3, 5),
        (3, 5),
        (4, 8),
        (4, 8),
    ]
    assert bench.log.end_of_epoch(2) == (0, 0)
    assert bench.log.last_epoch == 8


def test_an_empty_log_has_epoch_0() -> None:
    bench = Bench()
    assert bench.log.last_epoch == 0
    assert bench.log.end_of_epoch(0) == (0, 0)
    bench.append(0, b"v")
    assert bench.log.end_of_epoch(0) == (1, 0)


def test_an_epoch_before_the_log_ends_at_the_snapshot_below_it() -> None:
    bench = Bench()
    for epoch in (3, 3, 5, 8):
        bench.append(epoch, b"v")
    bench.snapshot(2, 3)
    bench.snapshot(4, 8)
    assert bench.log.start_offset == 2
    assert bench.log.end_of_epoch(4) == (2, 3)
    assert bench.log.end_of_epoch(3) == (2, 3)
    assert bench.log.end_of_epoch(2) == (2, 0)


def test_a_log_without_records_has_the_epoch_of_its_snapshot() -> None:
    bench = Bench()
    download(bench.log, OffsetAndEpoch(40, 7))
    assert bench.log.last_epoch == 7
    assert bench.log.end_of_epoch(9) == (40, 7)
    assert bench.log.end_of_epoch(7) == (40, 7)
    assert bench.log.end_of_epoch(6) == (40, 0)


# Truncation and the high watermark


def test_truncation_removes_the_records_at_and_above_an_offset_durably() -> None:
    bench = Bench()
    for epoch in (1, 2, 3):
        bench.append(epoch, b"v")
    bench.log.truncate(2)
    assert bench.offsets == (0, 2, 2)
    assert bench.log.last_epoch == 2
    assert bench.log.read(2) == b""
    bench = crashed(bench)
    assert bench.offsets == (0, 2, 2)
    assert bench.log.append_fetched(fetched(2, 9, b"w")) == 3


def test_truncation_at_the_end_changes_nothing() -> None:
    bench = Bench()
    bench.append(1, b"v")
    bench.log.truncate(1)
    assert bench.offsets == (0, 1, 1)


def test_nothing_is_truncated_or_installed_during_a_write() -> None:
    bench = Bench(stepped=True)
    bench.append(1, b"v")
    with pytest.raises(InvariantViolation, match="a follower truncates only when"):
        bench.log.truncate(0)
    bench.log.write_snapshot_part(OffsetAndEpoch(40, 7), 0, snapshot_data())
    with pytest.raises(InvariantViolation, match="a follower installs a snapshot only when"):
        bench.log.install_snapshot(OffsetAndEpoch(40, 7))


def test_the_high_watermark_is_at_most_the_end_of_the_log() -> None:
    bench = Bench()
    bench.append(1, b"a", b"b")
    bench.log.committed(1)
    assert bench.storage.high_watermark == 1
    bench.log.committed(9)
    assert bench.storage.high_watermark == 2


# Faults


def test_a_write_that_fails_is_reported_and_nothing_is_appended_afterwards() -> None:
    bench = Bench(stepped=True)
    bench.append(1, b"a")
    bench.append(1, b"b")
    bench.disk.fail_at(0)
    bench.executor.run_all()
    assert len(bench.faults) == 1
    assert bench.durable == []
    assert not bench.log.writing
    assert bench.log.durable_offset == 0
    with pytest.raises(Exception, match="offline"):
        bench.append(1, b"c")
    assert bench.executor.waiting == 0


def test_an_append_that_cannot_begin_a_segment_is_reported() -> None:
    bench = Bench()
    bench.storage.reconfigure(LogConfig(flush_messages=1, segment_bytes=100))
    bench.append(1, b"a")
    counted = bench.log.bytes_appended
    bench.disk.fail_at(0)
    bench.append(1, bytes(100))
    assert len(bench.faults) == 1
    assert bench.log.bytes_appended == counted
    assert bench.log.durable_offset == 1


@pytest.mark.parametrize("action", ["truncate", "install", "roll", "snapshot_written"])
def test_a_fault_of_other_work_on_the_log_is_reported(action: str) -> None:
    bench = Bench()
    bench.append(1, b"a")
    bench.append(1, b"b")
    bench.snapshot(1, 1)
    bench.append(1, b"c")
    bench.snapshot(2, 1)
    bench.append(1, b"d")
    bench.log.write_snapshot_part(OffsetAndEpoch(40, 7), 0, snapshot_data())
    bench.log.committed(4)
    actions: dict[str, Any] = {
        "truncate": lambda: bench.log.truncate(3),
        "install": lambda: bench.log.install_snapshot(OffsetAndEpoch(40, 7)),
        "roll": bench.log.roll,
        "snapshot_written": lambda: bench.log.snapshot_written(OffsetAndEpoch(4, 1), ()),
    }
    bench.disk.fail_at(0)
    actions[action]()
    assert len(bench.faults) == 1
    with pytest.raises(Exception, match="offline"):
        bench.append(1, b"e")

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.files import OsDisk
from ottla.base.ids import METADATA_TOPIC_ID
from ottla.quorum.metadata_log import StorageMetadataLog
from ottla.records.builder import NewRecord, build_batch
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.executor import InlineExecutor
from tests.support.quorum import CONFIG, PARTITION, FixedClock


def opened(root: Path, config: LogConfig = CONFIG) -> Log:
    return open_log(
        OsDisk(),
        str(root / str(PARTITION)),
        PARTITION,
        METADATA_TOPIC_ID,
        config,
        last=LastKnown(),
        rng=random.Random(1),
        now_ms=1,
    )


def adapter(log: Log) -> StorageMetadataLog:
    return StorageMetadataLog(log, InlineExecutor(), FixedClock())


def add(log: StorageMetadataLog, *values: bytes) -> None:
    records = [NewRecord(None, value, (), 1) for value in values]
    results: list[BaseException | None] = []
    log.append(build_batch(records, base_offset=log.end_offset, leader_epoch=1), results.append)
    assert results == [None]


def test_append_and_read(tmp_path: Path) -> None:
    log = adapter(opened(tmp_path))
    add(log, b"a", b"b")
    add(log, b"c")
    assert (log.start_offset, log.end_offset) == (0, 3)
    assert [(h.base_offset, h.last_offset) for h, _ in log.batches(0)] == [(0, 1), (2, 2)]
    assert [h.base_offset for h, _ in log.batches(2)] == [2]
    assert list(log.batches(3)) == []


def test_deleting_takes_whole_segments(tmp_path: Path) -> None:
    log = adapter(opened(tmp_path))
    add(log, b"a")
    add(log, b"b")
    log.roll()
    add(log, b"c")
    log.delete_before(2)
    assert log.start_offset == 2
    assert [path.name for path in tmp_path.rglob("*.log*")] == [f"{2:020d}.log"]


def test_restart_at(tmp_path: Path) -> None:
    log = adapter(opened(tmp_path))
    add(log, b"a")
    log.restart_at(70)
    assert (log.start_offset, log.end_offset) == (70, 70)
    add(log, b"b")
    assert [h.base_offset for h, _ in log.batches(70)] == [70]


def test_log_that_does_not_sync_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation):
        adapter(opened(tmp_path, LogConfig(flush_messages=1000)))

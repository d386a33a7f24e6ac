"""Producers of a log that was cut or recovered: they are those of a log that never had more records."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.rng import Random
from ottla.records.validation import ValidBatch
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.producers.producer_state import BATCHES_REMEMBERED, ProducerSnapshotEntry
from ottla.storage.recovery.recovery import LastKnown
from ottla.testing.disk import SimDisk, Survival
from tests.support.logs import NOW_MS, append, batch, marker, open_at, truncate

DIRECTORY = "/data/topic-0"
CONFIGS = [LogConfig(segment_bytes=300, index_interval_bytes=100), LogConfig(segment_bytes=900), LogConfig()]
COUNT = 20


def batches() -> list[ValidBatch]:
    """Producer 0 without transactions, producer 1 with committed and aborted ones; one offset each."""
    made = []
    for number in range(8):
        made.append(batch(value=bytes(40), producer_id=0, epoch=0, sequence=number))
        made.append(batch(value=bytes(40), producer_id=1, epoch=0, sequence=number, transactional=True))
        if number % 2:
            made.append(marker(1, 0, committed=number % 4 == 1))
    return made


def filled(count: int, config: LogConfig) -> tuple[SimDisk, Log]:
    disk = SimDisk(Random(1))
    log = open_at(disk, DIRECTORY, config)
    append(log, *batches()[:count])
    return disk, log


def state(log: Log) -> tuple[list[ProducerSnapshotEntry], int | None, int]:
    """What is known of the producers when all records are committed."""
    log.high_watermark = log.log_end_offset
    producers = log.producers
    return list(producers.snapshot()), producers.first_unstable_offset, producers.end_offset


def assert_retries_are_known(log: Log) -> None:
    """The last batches of producer 0, sent again, are duplicates."""
    entry = log.producers.get(0)
    last = -1 if entry is None else entry.last_sequence
    for sequence in range(max(0, last + 1 - BATCHES_REMEMBERED), last + 1):
        (placed,) = append(log, batch(value=bytes(40), producer_id=0, epoch=0, sequence=sequence))
        assert placed.duplicate


@pytest.mark.parametrize("config", CONFIGS, ids=["many segments", "few segments", "one segment"])
def test_a_truncation_restores_the_producers_of_the_shorter_log(config: LogConfig) -> None:
    for count in range(COUNT + 1):
        _, log = filled(COUNT, config)
        truncate(log, count, NOW_MS)
        _, expected = filled(count, config)
        assert state(log) == state(expected), count
        assert_retries_are_known(log)


@pytest.mark.parametrize("config", CONFIGS, ids=["many segments", "few segments", "one segment"])
def test_recovery_restores_the_producers(config: LogConfig) -> None:
    for count in range(1, COUNT + 1):
        disk, log = filled(count, config)
        for point in (0, count // 2, count):
            last = LastKnown(recovery_point=point)
            again = open_at(disk.crash(Survival.NONE), DIRECTORY, config, last)
            assert state(again) == state(log), (count, point)
            assert_retries_are_known(again)


@pytest.mark.parametrize("config", CONFIGS, ids=["many segments", "few segments", "one segment"])
def test_a_clean_stop_keeps_the_producers(config: LogConfig) -> None:
    for count in range(1, COUNT + 1):
        disk, log = filled(count, config)
        expected = state(log)
        log.close(NOW_MS)
        again = open_at(disk, DIRECTORY, config, LastKnown(clean=True, recovery_point=count))
        assert state(again) == expected, count
        assert_retries_are_known(again)


@pytest.mark.parametrize(
    ("late", "code"),
    [
        (marker(1, 3, committed=True, coordinator_epoch=4), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (marker(1, 2, committed=True, coordinator_epoch=5), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_marker_of_a_replaced_coordinator_or_producer_is_refused(late: ValidBatch, code: ErrorCode) -> None:
    log = open_at(SimDisk(Random(1)), DIRECTORY)
    append(log, batch(producer_id=1, epoch=3, sequence=0, transactional=True))
    append(log, marker(1, 3, committed=True, coordinator_epoch=5))
    append(log, batch(producer_id=1, epoch=3, sequence=1, transactional=True))
    with pytest.raises(ApiError) as refused:
        append(log, late)
    assert refused.value.code is code
    assert log.log_end_offset == 3

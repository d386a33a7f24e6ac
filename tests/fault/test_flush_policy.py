"""flush.messages and flush.ms against a model, with a power failure after every change of the disk.

The rule (Kafka's): when `flush.messages` or more records of a log are not flushed, all are flushed before the producers
get their responses. So a power failure takes less than `flush.messages` acknowledged records. When `flush.ms` have
passed since the last flush, all are flushed. A segment is also flushed, later, when the next one has begun.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import product

import pytest

from ottla.base.rng import Random
from ottla.storage.checkpoints import RECOVERY_POINT_FILE, read_offsets
from ottla.storage.log.log_config import LogConfig
from ottla.testing.disk import SimDisk, Survival
from tests.support.logs import NOW_MS
from tests.support.storage_bench import PARTITION, ROOT, StorageBench

SHAPES = ((1,), (2,), (1, 1), (1, 2, 1))
"""Jobs, as the records of their batches."""

JOBS = 3
SEGMENT_BYTES = 250
"""Room for two batches of one record; a batch of two records fills most of it."""

LARGE = 10**6
NEVER = 2**63 - 1


def bench(flush_messages: int, flush_ms: int = NEVER) -> StorageBench:
    return StorageBench(
        LogConfig(
            segment_bytes=SEGMENT_BYTES if flush_ms == NEVER else LARGE,
            index_interval_bytes=1,
            flush_messages=flush_messages,
            flush_ms=flush_ms,
        )
    )


def expected_flushed(flushed: int, end: int, active_base: int, flush_messages: int) -> int:
    """The model: the flushed offset after a job that ends at `end`."""
    if end - flushed >= flush_messages:
        return end
    return max(flushed, active_base)


@pytest.mark.parametrize("flush_messages", [1, 2, 3, 4, 5, 6, LARGE])
def test_the_flushed_offset_follows_the_model(flush_messages: int) -> None:
    for jobs in product(SHAPES, repeat=JOBS + 1):
        made = bench(flush_messages)
        flushed = end = 0
        for counts in jobs:
            made.produce(*counts)
            end += sum(counts)
            flushed = expected_flushed(flushed, end, made.log.segments.active.base_offset, flush_messages)
            assert made.acknowledged == end, jobs
            assert made.log.flushed_offset == flushed, (jobs, counts)


def lost_records(made: StorageBench) -> int:
    """The greatest number of acknowledged records that a power failure could take, over all moments of a run."""
    assert isinstance(made.disk, SimDisk)
    at = [changes for changes, _ in made.history]
    worst = 0
    disk = SimDisk(Random(1))
    for changes, change in enumerate(made.disk.trace, 1):
        disk.apply(change)
        slot = bisect_right(at, changes) - 1
        if slot >= 0:
            found = made.reopened(disk.crash(Survival.NONE))
            end = 0 if found is None else found.log_end_offset
            worst = max(worst, made.history[slot][1] - end)
    return worst


@pytest.mark.parametrize("flush_messages", [1, 2, 3, 4, 5])
def test_a_power_failure_takes_less_than_flush_messages(flush_messages: int) -> None:
    worst = 0
    for jobs in product(SHAPES, repeat=JOBS):
        made = bench(flush_messages)
        for counts in jobs:
            made.produce(*counts)
        lost = lost_records(made)
        assert lost < flush_messages, jobs
        worst = max(worst, lost)
    assert worst == flush_messages - 1, (
        "fewer records are lost than may be: the test cannot see a missing sync"
    )


@pytest.mark.parametrize("flush_messages", [2, 3, 4])
def test_jobs_that_wait_for_each_other_lose_no_more(flush_messages: int) -> None:
    """Appends that come while a job is under way, or while a flush is."""
    for jobs in product(SHAPES[:3], repeat=4):
        made = bench(flush_messages)
        for number, counts in enumerate(jobs):
            for count in counts:
                made.append(count)
            made.end_turn()
            if number % 2:
                made.executor.step()
        made.run()
        assert made.acknowledged == sum(map(sum, jobs))
        assert lost_records(made) < flush_messages, jobs


@pytest.mark.parametrize("flush_ms", [0, 1, 2, 500])
def test_all_is_flushed_when_flush_ms_have_passed(flush_ms: int) -> None:
    made = bench(LARGE, flush_ms)
    made.produce(1)
    made.flush_due()
    flushed_at = NOW_MS
    for elapsed in range(1, 4):
        made.clock.at_ms = flushed_at + flush_ms * elapsed // 2
        made.produce(1)
        made.flush_due()
        if made.clock.at_ms - flushed_at >= flush_ms:
            flushed_at = made.clock.at_ms
            assert made.log.flushed_offset == made.acknowledged == elapsed + 1
            found = made.recovered()
            assert found is not None
            assert found.log_end_offset == made.acknowledged
        else:
            assert made.log.flushed_offset < made.acknowledged


def test_flush_ms_counts_from_the_last_flush_of_any_kind() -> None:
    made = bench(3, flush_ms=100)
    made.produce(1)
    made.clock.at_ms += 60
    made.produce(2)
    assert made.log.flushed_offset == 3
    made.clock.at_ms += 60
    made.produce(1)
    made.flush_due()
    assert made.log.flushed_offset == 3
    made.clock.at_ms += 40
    made.flush_due()
    assert made.log.flushed_offset == 4


def test_a_checkpoint_does_not_pass_what_is_flushed() -> None:
    """Everything below a recovery point is durable: recovery does not check it again."""
    made = bench(LARGE)
    for _ in range(5):
        made.produce(1)
        made.dirs.checkpoint()
        points = read_offsets(made.disk, f"{ROOT}/{RECOVERY_POINT_FILE}")
        assert points[PARTITION] == made.log.flushed_offset < made.acknowledged
        found = made.recovered()
        assert (0 if found is None else found.log_end_offset) >= points[PARTITION]

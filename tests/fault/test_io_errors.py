"""One EIO at every change of every kind of job: the directory goes offline and nothing is tried again.

A failed write or sync must not be repeated: the kernel reports the error once and marks the pages clean, so that the
second attempt succeeds without the data. `JOBS` are the kinds of work that change a log directory.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ottla.base.errors import StorageFault
from ottla.storage.log import log_files
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from ottla.testing.disk import Survival
from tests.support.logs import NOW_MS
from tests.support.storage_bench import PARTITION, StorageBench

NEVER = 2**63 - 1
SEGMENT_BYTES = 250
"""Room for two batches of one record."""


@dataclass(frozen=True)
class Job:
    """`prepare` runs on a sound disk; one change of `work` fails. `changes` is the least number of changes."""

    work: Callable[[StorageBench], None]
    changes: int
    prepare: Callable[[StorageBench], None] = lambda bench: None
    flush_messages: int = 1

    def bench(self) -> StorageBench:
        made = StorageBench(
            LogConfig(
                segment_bytes=SEGMENT_BYTES,
                index_interval_bytes=1,
                retention_bytes=300,
                file_delete_delay_ms=0,
                flush_messages=self.flush_messages,
                flush_ms=0,
            )
        )
        self.prepare(made)
        return made


def fill(bench: StorageBench) -> None:
    """Several sealed segments, all acknowledged."""
    for _ in range(9):
        bench.produce(1)


def flush_is_waiting(bench: StorageBench) -> None:
    """Several sealed segments are written; the job that syncs them has not begun."""
    for _ in range(5):
        bench.append()
    bench.end_turn()
    assert bench.executor.step()
    assert bench.executor.waiting == 1


def checkpointed(bench: StorageBench) -> None:
    fill(bench)
    bench.dirs.checkpoint()


def truncate(bench: StorageBench) -> None:
    try:
        bench.log.truncate_to(3, NOW_MS)
    except StorageFault as fault:
        bench.dirs.fail(fault)


def exchange(bench: StorageBench) -> None:
    """As compaction does: a new segment in the place of two old ones."""
    log, disk = bench.log, bench.disk
    old = log.segments[0:2]
    try:
        data = b"".join(segment.file.pread(segment.written_size, 0) for segment in old)
        made = Segment.create(
            disk,
            log.directory,
            old[0].base_offset,
            bench.config,
            now_ms=NOW_MS,
            jitter_ms=0,
            suffix=log_files.CLEANED,
        )
        made.file.pwritev([data], 0)
        made.size = made.written_size = len(data)
        made.rebuild_indexes()
        made.seal()
        made.file.datasync()
        made.sync_indexes()
        log.replace_segments(old, made, NOW_MS)
    except (OSError, StorageFault) as error:
        bench.dirs.fail(error if isinstance(error, StorageFault) else StorageFault(log.log_dir, error))


def delete(bench: StorageBench) -> None:
    bench.dirs.delete_log(PARTITION, NOW_MS)
    bench.dirs.sync_deletions()


JOBS: dict[str, Job] = {
    "first write to a new log": Job(lambda bench: bench.produce(1), 5),
    "one synced write": Job(lambda bench: bench.produce(1), 1, lambda bench: bench.produce(1)),
    "one write into a new segment": Job(lambda bench: bench.produce(1), 2, lambda bench: bench.produce(1, 1)),
    "a write over four segments": Job(
        lambda bench: bench.produce(*[1] * 7), 8, lambda bench: bench.produce(1)
    ),
    "a write that syncs earlier ones": Job(
        lambda bench: bench.produce(1),
        3,
        lambda bench: [bench.produce(1) for _ in range(2)],
        flush_messages=3,
    ),
    "a write that syncs earlier segments, beside their flush": Job(
        lambda bench: bench.produce(1), 4, flush_is_waiting, flush_messages=6
    ),
    "unsynced writes and the flush of sealed segments": Job(
        lambda bench: bench.produce(*[1] * 5), 6, lambda bench: bench.produce(1), flush_messages=NEVER
    ),
    "flush by time": Job(StorageBench.flush_due, 4, lambda bench: bench.produce(1, 1), flush_messages=NEVER),
    "checkpoint": Job(lambda bench: bench.dirs.checkpoint(), 15, fill),
    "truncation": Job(truncate, 15, checkpointed),
    "retention": Job(lambda bench: bench.dirs.enforce_retention(NOW_MS), 10, checkpointed),
    "compaction": Job(exchange, 15, checkpointed),
    "deletion of a log": Job(delete, 2, fill),
    "clean stop": Job(lambda bench: bench.dirs.close(NOW_MS), 15, fill),
}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("name", JOBS)
def test_one_error_at_any_change_takes_the_directory_offline(name: str, code: int) -> None:
    job = JOBS[name]
    failed_at = 0
    while True:
        bench = job.bench()
        before = len(bench.disk.trace)
        start, acknowledged = bench.log.log_start_offset, bench.acknowledged
        bench.disk.fail_at(failed_at, code)
        job.work(bench)
        if len(bench.disk.trace) - before >= failed_at and not bench.offline:
            break
        case = f"{name}, change {failed_at}: {bench.disk.trace[before:]}"

        assert [each.path for each in bench.offline] == ["/data"], case
        assert bench.log.offline or bench.log.closed, case
        assert len(bench.disk.trace) - before == failed_at, f"the disk was changed after the failure: {case}"
        if name.startswith(("first write", "one ", "a write over", "a write that syncs earlier ones")):
            assert bench.acknowledged == acknowledged, case
        assert bench.log.closed or bench.refuses_appends(), case
        bench.run()
        bench.dirs.checkpoint()
        bench.dirs.enforce_retention(NOW_MS)
        bench.flush_due()
        bench.dirs.close(NOW_MS)
        assert len(bench.disk.trace) - before == failed_at, f"the failed directory was used: {case}"
        if job.flush_messages == 1 and name not in ("truncation", "deletion of a log"):
            for survival in Survival:
                found = bench.recovered(survival)
                if found is None:
                    assert bench.acknowledged == 0, case
                    continue
                assert found.log_end_offset >= bench.acknowledged, case
                assert found.log_start_offset >= start, case
        failed_at += 1
    assert failed_at >= job.changes, f"{name} has only {failed_at} changes"

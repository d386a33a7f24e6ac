"""The kinds of work that change a log directory, to be done while one call of the disk fails.

As a program (`python -m tests.support.io_jobs FOLDER TRACE`) it does each of them on the real disk, once for every
write and every sync that may fail (`tests.support.faults`), and prints the results as JSON.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ottla.base.errors import StorageFault
from ottla.base.files import Disk, OsDisk
from ottla.storage.log import log_files
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from tests.support.disk_calls import Trace
from tests.support.faults import Orders
from tests.support.logs import NOW_MS
from tests.support.storage_bench import PARTITION, ROOT, StorageBench

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

    def bench(self, disk: Disk | None = None, root: str = ROOT) -> StorageBench:
        config = LogConfig(
            segment_bytes=SEGMENT_BYTES,
            index_interval_bytes=1,
            retention_bytes=300,
            file_delete_delay_ms=0,
            flush_messages=self.flush_messages,
            flush_ms=0,
        )
        made = StorageBench(config, disk, root)
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
    bench.dirs.truncate(bench.log, 3, NOW_MS).result()


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
    bench.dirs.delete_logs([PARTITION], NOW_MS).result()


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


class Result(msgspec.Struct):
    """What one failing call on the real disk led to."""

    job: str
    kind: str
    failed_at: int
    offline: int
    acknowledged_before: int
    acknowledged: int
    calls_after: list[str]
    recovered_end: int


def fail_each(folder: Path, orders: Orders, trace: Trace) -> Iterator[Result]:
    """Do each job with its first write failing, its second, and so on; then the same with its syncs."""
    number = 0
    for name, job in JOBS.items():
        for kind in ("writes", "syncs"):
            refused, failed_at = True, 0
            while refused:
                number += 1
                bench = job.bench(OsDisk(), str(folder / str(number)))
                acknowledged_before = bench.acknowledged
                orders.refuse(kind, after=failed_at, times=1)
                job.work(bench)
                refused = orders.refused == 1
                acknowledged, calls = bench.acknowledged, len(trace.calls())
                if refused:
                    bench.use_again()
                    calls_after = [str(call) for call in trace.calls()[calls:]]
                    found = bench.reopened(OsDisk())
                    yield Result(
                        name,
                        kind,
                        failed_at,
                        len(bench.offline),
                        acknowledged_before,
                        max(acknowledged, bench.acknowledged),
                        calls_after,
                        -1 if found is None else found.log_end_offset,
                    )
                orders.heal()
                bench.dirs.release()
                bench.log.segments.close()
                bench.writer.close()
                failed_at += 1


if __name__ == "__main__":
    results = fail_each(Path(sys.argv[1]), Orders(Path(os.environ["FAULT_ORDERS"])), Trace(Path(sys.argv[2])))
    sys.stdout.buffer.write(msgspec.json.encode(list(results)))

"""One EIO at every change of every kind of job: the directory goes offline and nothing is tried again.

A failed write or sync must not be repeated: the kernel reports the error once and marks the pages clean, so that the
second attempt succeeds without the data. `tests.support.io_jobs.JOBS` are the kinds of work that change a directory.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ottla.base.errors import StorageFault
from ottla.testing.disk import Survival
from tests.support.faults import DiskFaults, needs_compiler
from tests.support.io_jobs import JOBS, Result

ROOT = Path(__file__).resolve().parents[2]
ACKNOWLEDGES_NOTHING = ("first write", "one ", "a write over", "a write that syncs earlier ones")
"""Jobs that consist of one write job: if it fails, no producer gets a response."""


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
        if name.startswith(ACKNOWLEDGES_NOTHING):
            assert bench.acknowledged == acknowledged, case
        assert bench.log.closed or bench.refuses_appends(), case
        bench.use_again()
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


def test_a_job_that_succeeds_after_the_directory_failed_acknowledges_nothing() -> None:
    bench = JOBS["one synced write"].bench()
    acknowledged = bench.acknowledged
    bench.append()
    bench.end_turn()
    bench.dirs.fail(
        StorageFault(bench.log.log_dir, OSError(errno.EIO, "another log of this directory failed"))
    )
    assert bench.executor.step()
    assert bench.acknowledged == acknowledged
    assert not bench.executor.waiting


@needs_compiler
def test_one_error_on_the_real_disk_takes_the_directory_offline(tmp_path: Path) -> None:
    """Without a power failure nothing is lost, but nothing is written after the error either."""
    pytest.importorskip("ottla.base._writer", reason="the compiled writer is missing")
    folder = tmp_path / "data"
    folder.mkdir()
    faults = DiskFaults(tmp_path, folder)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.io_jobs", str(folder), str(faults.trace)],
        env={**os.environ, **faults.environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    # The log of the process precedes the results.
    results = msgspec.json.decode(done.stdout[done.stdout.rindex(b"\n") + 1 :], type=list[Result])
    for each in results:
        assert each.offline == 1, each
        assert not each.calls_after, each
        assert each.acknowledged >= each.acknowledged_before
        if each.job.startswith(ACKNOWLEDGES_NOTHING):
            assert each.acknowledged == each.acknowledged_before, each
    assert {(each.job, each.kind) for each in results} >= {
        (job, "syncs") for job in JOBS if not job.startswith("one synced")
    }
    assert ("one synced write", "writes") in {(each.job, each.kind) for each in results}

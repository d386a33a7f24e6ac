"""The system calls that each operation of the disk and writer ports makes: all of them, in their order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.disk_calls import Trace, missing
from tests.support.faults import DiskFaults, needs_compiler
from tests.support.port_steps import STEPS

pytestmark = needs_compiler
ROOT = Path(__file__).resolve().parents[2]

EXACT: dict[str, list[str]] = {
    "create a file": ["create file"],
    "write": ["write file"],
    "write and sync": ["write+sync file"],
    "write many and sync": ["write+sync file", "write+sync file"],
    "sync": ["sync file"],
    "truncate": ["truncate file"],
    "release": [],
    "reserve": [],
    "make directories": ["mkdir a", "sync .", "mkdir a/b", "sync a"],
    "make a directory": ["mkdir c"],
    "sync a directory": ["sync a"],
    "sync all": ["sync-all ."],
    "replace": [
        "create a/small.tmp",
        "write a/small.tmp",
        "sync a/small.tmp",
        "rename a/small.tmp a/small",
        "sync a",
    ],
    "rename": ["rename a/small a/other"],
    "remove": ["remove a/other"],
    **{
        f"{kind} writer, {size}{', synced' * sync}": ["write+sync file" if sync else "write file"] * calls
        for kind in ("native", "executor")
        for size, calls in (("small", 1), ("large", 1), ("many", 2))
        for sync in (False, True)
    },
}

# Truncation of a log: newest segment first, each removed for good; the rest is cut durably before the next append.
CUT = [
    "mark cutting",
    "remove cut/t-0/*6.log",
    "sync cut/t-0",
    "remove cut/t-0/*4.log",
    "sync cut/t-0",
    "remove cut/t-0/*2.log",
    "sync cut/t-0",
    "truncate cut/t-0/*0.log",
    "sync cut/t-0/*0.log",
    "sync cut/t-0/*0.timeindex",
    "sync cut/t-0/*0.index",
    "sync cut/t-0/leader-epoch-checkpoint.tmp",
    "rename cut/t-0/leader-epoch-checkpoint.tmp cut/t-0/leader-epoch-checkpoint",
    "sync cut/t-0",
    "mark cut",
    "write+sync cut/t-0/*0.log",
]

# Deletion of a segment: its log file is renamed for good before its indexes are.
DELETE = [
    "mark deleting",
    "rename deleted/t-0/*.log deleted/t-0/*.log.deleted",
    "sync deleted/t-0",
    "rename deleted/t-0/*.index deleted/t-0/*.index.deleted",
    "rename deleted/t-0/*.timeindex deleted/t-0/*.timeindex.deleted",
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    pytest.importorskip("ottla.base._writer", reason="the compiled writer is missing")
    workshop = tmp_path_factory.mktemp("ports")
    folder = workshop / "data"
    folder.mkdir()
    faults = DiskFaults(workshop, folder)
    subprocess.run(
        [sys.executable, "-m", "tests.support.port_steps", str(folder), str(faults.trace)],
        env={**os.environ, **faults.environment},
        cwd=ROOT,
        check=True,
    )
    return Trace(faults.trace)


@pytest.mark.parametrize("step", EXACT)
def test_an_operation_makes_exactly_these_calls(trace: Trace, step: str) -> None:
    assert [str(call) for call in trace.between(f"begin {step}", f"end {step}")] == EXACT[step]


def test_a_log_is_cut_durably_and_from_its_end(trace: Trace) -> None:
    calls = trace.between("begin cut a log", "end cut a log")
    assert missing(calls, CUT) is None, [str(call) for call in calls]


def test_the_log_file_of_a_deleted_segment_is_renamed_first(trace: Trace) -> None:
    calls = trace.between("begin delete a segment", "end delete a segment")
    assert missing(calls, DELETE) is None, [str(call) for call in calls]


def test_every_step_is_checked() -> None:
    assert set(EXACT) | {"cut a log", "delete a segment"} == set(STEPS)

"""Operations of the disk and writer ports, one after the other, in a process that is observed.

Run as `python -m tests.support.port_steps FOLDER TRACE`; each operation of `STEPS` is marked in the trace.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from ottla.base.clock import SystemClock
from ottla.base.executor import ThreadExecutor
from ottla.base.files import Buffer, OsDisk, OsFile
from ottla.base.writer import ExecutorWriter, NativeWriter
from ottla.storage.log import log_files
from ottla.storage.log.log_config import LogConfig
from tests.support.disk_calls import Trace
from tests.support.logs import NOW_MS, append, batch, open_at, truncate

SMALL: list[Buffer] = [b"small"]
LARGE: list[Buffer] = [bytes(70_000), bytes(1_000)]
MANY: list[Buffer] = [b"x"] * 1025
"""More buffers than one system call takes."""


def write(kind: str, buffers: list[Buffer], sync: bool) -> Callable[[str], None]:
    """Write with a writer and wait until it has reported."""

    def step(folder: str) -> None:
        loop = asyncio.new_event_loop()
        executor = ThreadExecutor(loop.call_soon_threadsafe, 1)
        writer: ExecutorWriter | NativeWriter = ExecutorWriter(executor)
        if kind == "native":
            writer = NativeWriter(loop.add_reader, SystemClock(), 1)
        file = _file(folder)
        done: asyncio.Future[BaseException | None] = loop.create_future()
        writer.write(file, buffers, 0, sync, done.set_result)
        failure = loop.run_until_complete(done)
        assert failure is None
        writer.close()
        executor.close()
        file.close()
        loop.close()

    return step


def on_file(work: Callable[[OsFile], None]) -> Callable[[str], None]:
    def step(folder: str) -> None:
        file = _file(folder)
        work(file)
        file.close()

    return step


def _file(folder: str) -> OsFile:
    return OsDisk().open(f"{folder}/file")


def cut_log(folder: str) -> None:
    """A log of several segments is cut in the first of them, then appended to."""
    log = open_at(OsDisk(), f"{folder}/cut/t-0", LogConfig(segment_bytes=200))
    for _ in range(4):
        append(log, batch(1, value=bytes(30)), batch(1, value=bytes(30)))
    trace.mark("cutting")
    truncate(log, 1, NOW_MS)
    trace.mark("cut")
    append(log, batch(1))


def delete_segment(folder: str) -> None:
    """A segment of a log gets its names of deleted files."""
    log = open_at(OsDisk(), f"{folder}/deleted/t-0")
    append(log, batch(1))
    log.segments.first.sync_indexes()
    trace.mark("deleting")
    log.segments.first.rename(log_files.DELETED)


STEPS: dict[str, Callable[[str], None]] = {
    "create a file": lambda folder: OsDisk().open(f"{folder}/file", create=True).close(),
    "write": on_file(lambda file: file.pwritev(SMALL, 0)),
    "write and sync": on_file(lambda file: file.pwritev(SMALL, 0, sync=True)),
    "write many and sync": on_file(lambda file: file.pwritev(MANY, 0, sync=True)),
    "sync": on_file(OsFile.datasync),
    "truncate": on_file(lambda file: file.truncate(1)),
    "release": on_file(lambda file: file.release(1, 2)),
    "reserve": on_file(lambda file: file.reserve(4096, 1 << 20)),
    "make directories": lambda folder: OsDisk().makedirs(f"{folder}/a/b"),
    "make a directory": lambda folder: OsDisk().mkdir(f"{folder}/c"),
    "sync a directory": lambda folder: OsDisk().sync_dir(f"{folder}/a"),
    "sync all": lambda folder: OsDisk().sync_all(folder),
    "replace": lambda folder: OsDisk().replace(f"{folder}/a/small", b"content"),
    "rename": lambda folder: OsDisk().rename(f"{folder}/a/small", f"{folder}/a/other"),
    "remove": lambda folder: OsDisk().remove(f"{folder}/a/other"),
    **{
        f"{kind} writer, {size}{', synced' * sync}": write(kind, buffers, sync)
        for kind in ("native", "executor")
        for size, buffers in (("small", SMALL), ("large", LARGE), ("many", MANY))
        for sync in (False, True)
    },
    "cut a log": cut_log,
    "delete a segment": delete_segment,
}


if __name__ == "__main__":
    trace = Trace(Path(sys.argv[2]))
    for name, run in STEPS.items():
        trace.mark(f"begin {name}")
        run(sys.argv[1])
        trace.mark(f"end {name}")

"""Staged bytes of a log, and the jobs that write and sync them outside the event loop.

A log stages appended batches as `SegmentWrite`s, one per segment touched. A `WriteJob` takes them all: one
`pwritev` per segment, and a sync if it is due. A `FlushJob` only syncs what earlier jobs wrote. `run` may be
called in a worker thread: a job holds open files and bytes, and nothing of the log.

Order, on which recovery relies: when a job syncs, a segment is durable before a byte of the next one is
written, and a new segment's name is durable before its content is.

Failure: the first OSError becomes a `StorageFault`; nothing is retried.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from ottla.base.errors import StorageFault
from ottla.base.files import Buffer, Disk, File
from ottla.records.batch import LOG_OVERHEAD
from ottla.storage.checkpoints import PARTITION_METADATA_FILE
from ottla.storage.log.segment import Segment

COPY_BYTES_MAX: Final = 128 * 1024
"""Batches up to this size are copied when staged; longer ones are kept by reference until written.

A batch this short may lie in memory that the next request will overwrite (`wire.frame_reader`).
"""

_GATHER_BYTES_MAX: Final = 4096
"""Batches up to this size are copied behind each other, to be one buffer of the write."""

_STAMP: Final = Struct(">qii")
_STAMP_BYTES: Final = _STAMP.size


class SegmentWrite:
    """Staged bytes of one segment, to be written at `position`."""

    __slots__ = ("_copied", "buffers", "position", "segment")

    def __init__(self, segment: Segment, position: int) -> None:
        self.segment = segment
        self.position = position
        self.buffers: list[Buffer] = []
        self._copied: bytearray | None = None

    def add(self, batch: Buffer, base_offset: int, leader_epoch: int) -> None:
        """Stage a batch under its offset in the log.

        Offset and epoch lie outside the CRC; `batch` is not changed.
        """
        size = len(batch)
        stamp = _STAMP.pack(base_offset, size - LOG_OVERHEAD, leader_epoch)
        rest = memoryview(batch)[_STAMP_BYTES:]
        if size > _GATHER_BYTES_MAX:
            self._copied = None
            self.buffers += (stamp, rest if size > COPY_BYTES_MAX else bytes(rest))
            return
        copied = self._copied
        if copied is None:
            copied = self._copied = bytearray()
            self.buffers.append(copied)
        copied += stamp
        copied += rest

    def add_owned(self, batches: Buffer) -> None:
        """Stage batches that carry their offsets, in memory that nothing else uses."""
        if len(batches) > _GATHER_BYTES_MAX:
            self._copied = None
            self.buffers.append(batches)
        else:
            self.add_raw(batches)

    def add_raw(self, batches: Buffer) -> None:
        """Stage batches that carry their offsets already."""
        if len(batches) > COPY_BYTES_MAX:
            self._copied = None
            self.buffers.append(batches)
            return
        if self._copied is None:
            self._copied = bytearray()
            self.buffers.append(self._copied)
        self._copied += batches


class LogLocation(NamedTuple):
    """The directory of a log."""

    disk: Disk
    directory: str
    log_dir: str

    def sync_new(self) -> None:
        """Make a new log's directory durable, with its name and the file with its topic id."""
        path = f"{self.directory}/{PARTITION_METADATA_FILE}"
        if self.disk.exists(path):
            file = self.disk.open(path)
            try:
                file.datasync()
            finally:
                file.close()
        self.disk.sync_dir(self.directory)
        self.disk.sync_dir(self.log_dir)


class _Step:
    __slots__ = ("buffers", "end", "file", "position", "segment", "sync_all", "sync_name")

    def __init__(self, segment: Segment, buffers: list[Buffer], position: int) -> None:
        self.segment = segment
        self.file: File = segment.file
        self.buffers = buffers
        self.position = position
        self.end = position + sum(map(len, buffers))
        self.sync_all = False
        self.sync_name = False


class WriteJob:
    """Write what was staged when the job was created; it is durable afterwards if `sync` is set."""

    __slots__ = ("_location", "end_offset", "fresh", "steps", "sync")

    def __init__(
        self,
        location: LogLocation,
        staged: list[SegmentWrite],
        *,
        end_offset: int,
        unsynced: list[Segment] | None,
        fresh: bool,
    ) -> None:
        """`unsynced` lists, in log order, the segments with written but unsynced bytes; None if no sync is
        due.

        `fresh`: the log's directory itself is new and not durable.
        """
        self._location = location
        self.fresh = fresh
        self.end_offset = end_offset
        self.sync = unsynced is not None
        self.steps = [_Step(write.segment, write.buffers, write.position) for write in staged]
        if unsynced is not None:
            self._plan_sync(unsynced)

    def _plan_sync(self, unsynced: list[Segment]) -> None:
        touched = {step.segment.base_offset: step for step in self.steps}
        earlier = []
        for segment in unsynced:
            step = touched.get(segment.base_offset)
            if step is None:
                step = _Step(segment, [], segment.written_size)
                earlier.append(step)
            step.sync_all = True
        self.steps[:0] = earlier
        for step in self.steps:
            step.sync_name = not step.segment.name_durable

    @property
    def only_step(self) -> _Step | None:
        """The write that is all there is to do, if so: nearly always."""
        if len(self.steps) != 1 or (self.sync and self.fresh):
            return None
        step = self.steps[0]
        return None if step.sync_all or step.sync_name else step

    def run(self) -> None:
        location = self._location
        try:
            if self.sync and self.fresh:
                location.sync_new()
            for step in self.steps:
                if step.sync_name:
                    location.disk.sync_dir(location.directory)
                if step.buffers:
                    step.file.pwritev(step.buffers, step.position, sync=self.sync and not step.sync_all)
                if step.sync_all:
                    step.file.datasync()
        except OSError as error:
            raise StorageFault(location.log_dir, error) from error


class FlushJob:
    """Sync what has been written up to `end_offset`."""

    __slots__ = ("_location", "_sync_names", "end_offset", "fresh", "segments", "sizes")

    def __init__(
        self, location: LogLocation, segments: list[Segment], *, end_offset: int, fresh: bool
    ) -> None:
        self._location = location
        self.fresh = fresh
        self.end_offset = end_offset
        self.segments = [(segment, segment.file) for segment in segments]
        self.sizes = [segment.written_size for segment in segments]
        self._sync_names = any(not segment.name_durable for segment in segments)

    def run(self) -> None:
        location = self._location
        try:
            if self.fresh:
                location.sync_new()
            elif self._sync_names:
                location.disk.sync_dir(location.directory)
            for _, file in self.segments:
                file.datasync()
        except OSError as error:
            raise StorageFault(location.log_dir, error) from error

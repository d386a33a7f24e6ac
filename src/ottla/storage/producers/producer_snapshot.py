"""Producer state on disk (`<offset>.snapshot`): what the log's producers had written below that offset.

    version  int16   1
    crc      uint32  CRC-32C of everything after it
    count    int32
    entries  producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32,
             timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (or -1)

Big endian. One is taken when a segment is rolled (named after the new segment) and one at a clean stop; after
a start the newest usable one is loaded and the log replayed from its offset.

Crash policy: files are written in place, the CRC identifies a torn one, and an invalid snapshot is
deleted and the next older one used; without any, the whole log is replayed.

Concurrency: the log's task only.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Final

from ottla.base.crc import crc32c
from ottla.base.errors import OttlaError
from ottla.base.files import Disk
from ottla.storage.producers.producer_state import ProducerSnapshotEntry, ProducerState

SUFFIX: Final = ".snapshot"
VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(OttlaError):
    """A snapshot file is damaged and cannot be used."""


def encode(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join([_COUNT.pack(len(packed)), *packed])
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerSnapshotEntry]:
    body_start = _HEAD.size
    if len(data) < body_start + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version}, only {VERSION} is known")
    if crc32c(data[body_start:]) != crc:
        raise CorruptSnapshot("the checksum does not match")
    (count,) = _COUNT.unpack_from(data, body_start)
    entries = data[body_start + _COUNT.size :]
    if count < 0 or len(entries) != count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries announced in {len(entries)} bytes")
    return list(map(ProducerSnapshotEntry._make, _ENTRY.iter_unpack(entries)))


class SnapshotWrite:
    """A write of one snapshot; `run` may be called in a worker thread."""

    __slots__ = ("_data", "_disk", "_path")

    def __init__(self, disk: Disk, path: str, data: bytes) -> None:
        self._disk = disk
        self._path = path
        self._data = data

    def run(self, *, sync: bool) -> None:
        file = self._disk.open(self._path, create=True)
        try:
            file.truncate(0)
            file.pwritev([self._data], 0)
            if sync:
                file.datasync()
        finally:
            file.close()


class ProducerSnapshots:
    """The snapshot files of one log."""

    def __init__(self, disk: Disk, directory: str, names: Iterable[str]) -> None:
        """`names` lists the files in the directory."""
        self.directory = directory
        self._disk = disk
        self._offsets = sorted(int(name.removesuffix(SUFFIX)) for name in names if _is_snapshot(name))

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    @property
    def latest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        return f"{self.directory}/{offset:020d}{SUFFIX}"

    def take(self, state: ProducerState, *, sync: bool = True) -> bool:
        """Write the state at its end offset, unless there is a snapshot at or above it already."""
        write = self.take_write(state)
        if write is None:
            return False
        write.run(sync=sync)
        return True

    def take_write(self, state: ProducerState) -> SnapshotWrite | None:
        """The write that `take` would do, to be run elsewhere; None if there is nothing to write."""
        latest = self.latest
        if latest is not None and state.end_offset <= latest:
            return None
        self._offsets.append(state.end_offset)
        return SnapshotWrite(self._disk, self.path(state.end_offset), encode(state.snapshot()))

    def load_newest(
        self, state: ProducerState, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> None:
        """Bring the state as near to the log's end as the files allow; the caller replays the log from there.

        Snapshots outside of (log start, log end] are deleted, durably: the log will grow past them with other
        records. So are those that do not check out.
        """
        outside = [offset for offset in self._offsets if not log_start_offset < offset <= log_end_offset]
        for offset in outside:
            self.delete(offset)
        if outside:
            self._disk.sync_dir(self.directory)
        while self._offsets:
            offset = self._offsets[-1]
            try:
                entries = decode(self._disk.read(self.path(offset)))
            except (CorruptSnapshot, FileNotFoundError):
                self.delete(offset)
            else:
                state.load(entries, offset, now_ms)
                return
        state.clear(log_start_offset)

    def delete(self, offset: int) -> None:
        if offset in self._offsets:
            self._offsets.remove(offset)
            if self._disk.exists(self.path(offset)):
                self._disk.remove(self.path(offset))

    def forget_before(self, offset: int) -> list[str]:
        """Forget the snapshots below `offset`; returns the files, for the caller to remove."""
        gone = [snapshot for snapshot in self._offsets if snapshot < offset]
        self._offsets = [snapshot for snapshot in self._offsets if snapshot >= offset]
        return [self.path(snapshot) for snapshot in gone]

    def delete_all(self) -> None:
        for snapshot in self.offsets:
            self.delete(snapshot)

    def keep_for(self, segment_base_offsets: Collection[int]) -> None:
        """Delete the snapshots that belong to no segment, except the newest if it is above all segments.

        That one was taken at a clean stop.
        """
        newest_segment = max(segment_base_offsets, default=-1)
        for offset in self.offsets:
            at_stop = offset == self.latest and offset >= newest_segment
            if offset not in segment_base_offsets and not at_stop:
                self.delete(offset)

    def thin_out(self, segment_base_offsets: Collection[int]) -> list[str]:
        """Forget the snapshots inside of segments except the newest two; returns the files, for the caller to remove.

        The newest may lie above the recovery point; recovery then uses the other one.
        """
        inside = [offset for offset in self._offsets if offset not in segment_base_offsets]
        for offset in inside[:-2]:
            self._offsets.remove(offset)
        return [self.path(offset) for offset in inside[:-2]]

    def forget(self, offset: int) -> None:
        """The file has been renamed or removed together with its segment."""
        if offset in self._offsets:
            self._offsets.remove(offset)


def _is_snapshot(name: str) -> bool:
    return (
        name.endswith(SUFFIX)
        and len(name) == 20 + len(SUFFIX)
        and name[:20].isascii()
        and name[:20].isdigit()
    )

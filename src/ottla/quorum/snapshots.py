"""Snapshots of the metadata: files `<end offset>-<epoch>.checkpoint` beside the log.

A snapshot is a sequence of record batches with their own offsets, counted from 0:

    control batch   header with the timestamp of the last record contained; with kraft.version 1 also the voters
    data batches    record values
    control batch   footer

The end offset in the name is the offset after the last record contained. The snapshot `0-0` that formatting
writes contains only the voters. `bootstrap.checkpoint`, one directory up, has the same format and contains
the initial feature levels of a new cluster.

Crash policy: a snapshot is written under another name and renamed when it is durable. A snapshot with a wrong
CRC or without a footer is ignored, and the one before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.base.errors import LocalError
from ottla.base.files import Disk
from ottla.quorum.control_records import control_batch, read_control_batch
from ottla.records.batch import CorruptBatch, crc_ok, iter_batches
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import iter_records
from ottla.wire.messages.control import SnapshotFooterRecord, SnapshotHeaderRecord
from ottla.wire.schema import Message

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_PARTIAL_SUFFIX: Final = ".checkpoint.part"
_BATCH_BYTES_MAX: Final = 1 << 20


class SnapshotId(NamedTuple):
    """The part of the log that a snapshot replaces: all records below `end_offset`, the last one in `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class Snapshot(NamedTuple):
    """The content of a snapshot file."""

    last_timestamp_ms: int
    controls: list[Message]
    batches: list[list[bytes]]


def encode_snapshot(
    values: Iterable[bytes], *, epoch: int, last_timestamp_ms: int, controls: Iterable[Message], now_ms: int
) -> bytes:
    """Encode a snapshot file."""
    head = [SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms), *controls]
    data = bytearray(control_batch(head, base_offset=0, epoch=epoch, now_ms=now_ms))
    offset = len(head)
    for chunk in _chunks(values):
        records = [NewRecord(None, value, (), now_ms) for value in chunk]
        data += build_batch(records, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    data += control_batch([SnapshotFooterRecord()], base_offset=offset, epoch=epoch, now_ms=now_ms)
    return bytes(data)


def _chunks(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for value in values:
        chunk.append(value)
        size += len(value)
        if size >= _BATCH_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def decode_snapshot(data: bytes, path: str) -> Snapshot:
    """Read a snapshot file; LocalError if it is damaged or not complete."""
    view = memoryview(data)
    controls: list[Message] = []
    batches: list[list[bytes]] = []
    position = 0
    try:
        for start, header in iter_batches(view):
            position = start + header.size_in_bytes
            batch = view[start:position]
            if not crc_ok(batch):
                raise LocalError(f"{path}: the batch at byte {start} does not match its CRC")
            if header.is_control:
                controls += read_control_batch(header, batch)
            else:
                batches.append([bytes(record.value or b"") for record in iter_records(batch, header)])
    except CorruptBatch as error:
        raise LocalError(f"{path}: {error}") from error
    if position != len(view) or not controls or not isinstance(controls[-1], SnapshotFooterRecord):
        raise LocalError(f"{path} is not complete")
    head = controls[0]
    if not isinstance(head, SnapshotHeaderRecord):
        raise LocalError(f"{path} does not begin with a snapshot header")
    return Snapshot(head.last_contained_log_timestamp, controls[1:-1], batches)


class SnapshotStore:
    """The snapshots in the directory of the metadata log."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """The ids of the stored snapshots, oldest first; incomplete files of a crash are removed."""
        found = []
        for name in self._disk.listdir(self._directory):
            match = _NAME.fullmatch(name)
            if match:
                found.append(SnapshotId(int(match[1]), int(match[2])))
            elif name.endswith(_PARTIAL_SUFFIX):
                self._disk.remove(f"{self._directory}/{name}")
        return sorted(found)

    def read(self, snapshot_id: SnapshotId) -> Snapshot:
        """Read one snapshot; LocalError if it cannot be used."""
        path = self._path(snapshot_id)
        return decode_snapshot(self._disk.read(path), path)

    def write(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Store a snapshot, durably and atomically."""
        self._disk.replace(self._path(snapshot_id), data)

    def delete(self, snapshot_id: SnapshotId) -> None:
        self._disk.remove(self._path(snapshot_id))

    def _path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id.file_name}"

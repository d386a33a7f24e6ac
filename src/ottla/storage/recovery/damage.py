"""The records that recovery removes from a log: logged, and copied to a file if some of them are valid.

A torn tail is the rest of a write that was never acknowledged; it is removed. Valid batches behind a damaged one
may have been acknowledged. They cannot be served, because offsets before them are missing. They are copied for the
operator, to files that no broker reads: `<segment>.log.damaged-<position>` with the segment's bytes from that position
on.

Records in a format older than record batches only look damaged. They are refused, and nothing is changed.

Crash policy: the copy is durable before the segment is cut; an interrupted recovery writes it again.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from ottla.base.errors import LocalError
from ottla.base.files import Disk
from ottla.records.batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD
from ottla.storage.log import log_files
from ottla.storage.log.segment import Segment
from ottla.storage.recovery.batch_scan import walk_verified

_COPY_BYTES: Final = 1 << 20
_OLD_HEADER: Final = Struct(">qiIb")
_OLD_SIZE_MIN: Final = 14
_OLD_SIZE_MAX: Final = 1 << 30


def has_sound_batches(segment: Segment, position: int) -> bool:
    """Whether sound batches stand at `position`, or behind the one that is damaged there."""
    end = segment.written_size
    head = segment.file.pread(LOG_OVERHEAD, position)
    length = int.from_bytes(head[LENGTH_OFFSET:], "big", signed=True) if len(head) == LOG_OVERHEAD else -1
    after = position + LOG_OVERHEAD + length
    starts = [position] if length + LOG_OVERHEAD < HEADER_SIZE else [position, after]
    return any(
        next(iter(walk_verified(segment.file, start, end)), None) is not None
        for start in starts
        if start < end
    )


def refuse_old_format(segment: Segment, position: int) -> None:
    """Raise LocalError if what stands at `position` is not damage but a sound message of format (magic) 0 or 1.

    offset int64, size int32, CRC-32 uint32 of all that follows it, magic int8, ...
    """
    head = segment.file.pread(_OLD_HEADER.size, position)
    if len(head) < _OLD_HEADER.size:
        return
    _, size, crc, magic = _OLD_HEADER.unpack(head)
    end = position + LOG_OVERHEAD + size
    if magic not in (0, 1) or not _OLD_SIZE_MIN <= size <= _OLD_SIZE_MAX or end > segment.written_size:
        return
    if zlib.crc32(segment.file.pread(size - 4, position + LOG_OVERHEAD + 4)) == crc:
        raise LocalError(
            f"{segment.path_of(log_files.LOG)} holds messages of format {magic}, which Ottla does not read; "
            "nothing was changed. Let Apache Kafka rewrite the topic in format 2, or remove the directory"
        )


def keep(disk: Disk, directory: str, segment: Segment, position: int) -> str:
    """Copy what a segment holds from `position` on; the name of the copy, which is durable."""
    target = f"{segment.path_of(log_files.LOG)}.damaged-{position}"
    copy = disk.open(target, create=True)
    try:
        copy.truncate(0)
        at = position
        while at < segment.written_size:
            data = segment.file.pread(min(_COPY_BYTES, segment.written_size - at), at)
            copy.pwritev([data], at - position)
            at += len(data)
        copy.datasync()
    finally:
        copy.close()
    disk.sync_dir(directory)
    return target

"""Files that an interrupted change left in a partition's directory, and how the change is undone or finished.

- `.deleted`: was to be removed; removed. (`.checkpoint.deleted` files are snapshots of the metadata quorum and
  are not changed here.)
- `.cleaned`: compaction was still writing it; removed.
- `.swap`: complete and about to replace its originals. If a `.cleaned` file of the same or an earlier offset
  is there, the exchange had not begun: the `.swap` is removed too. Otherwise the originals in its range are removed
  and it replaces them.
- an index or snapshot without any segment it could belong to; an index is removed here, snapshots are checked later.
- `.tmp`: an interrupted replacement of a small file; removed.

Every step can be interrupted and done again. The directory is synced before a `.swap` file gets its final
name, so that originals cannot appear again beside it.
"""

from __future__ import annotations

from ottla.base.files import Disk
from ottla.storage.log import log_files
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment

_QUORUM_SNAPSHOT_DELETED = ".checkpoint.deleted"
_UNFINISHED = (log_files.CLEANED, log_files.SWAP, log_files.DELETED, ".tmp")


def clear_leftovers(disk: Disk, directory: str, config: LogConfig) -> list[str]:
    """Undo or finish interrupted changes; returns the names that remain in the directory."""
    names = disk.listdir(directory)
    unfinished = any(name.endswith(_UNFINISHED) for name in names)
    swaps = _drop_unfinished(disk, directory, names)
    if swaps:
        _finish_swaps(disk, directory, swaps, config)
        names = disk.listdir(directory)
    logs = {
        parsed[0]
        for name in names
        if (parsed := log_files.parse_segment_file(name)) and parsed[1] == log_files.LOG
    }
    orphans = [
        name
        for name in names
        if (parsed := log_files.parse_segment_file(name))
        and parsed[1] not in (log_files.LOG, log_files.SNAPSHOT)
        and parsed[0] not in logs
    ]
    _remove(disk, directory, orphans)
    return disk.listdir(directory) if orphans or unfinished else names


def _drop_unfinished(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Remove what was deleted or not complete; returns the `.swap` files that remain."""
    cleaned = [name for name in names if name.endswith(log_files.CLEANED)]
    swaps = [name for name in names if name.endswith(log_files.SWAP)]
    first_cleaned = min(filter(lambda offset: offset >= 0, map(_offset, cleaned)), default=None)
    invalid = [name for name in swaps if first_cleaned is not None and _offset(name) >= first_cleaned]
    gone = [
        name
        for name in names
        if (name.endswith(log_files.DELETED) and not name.endswith(_QUORUM_SNAPSHOT_DELETED))
        or name.endswith(".tmp")
    ]
    # `.swap` files are removed before `.cleaned` ones: alone, a `.swap` would look valid.
    _remove(disk, directory, invalid)
    _remove(disk, directory, cleaned + gone)
    return [name for name in swaps if name not in invalid]


def _finish_swaps(disk: Disk, directory: str, swaps: list[str], config: LogConfig) -> None:
    ranges = []
    for name in swaps:
        if name.endswith(log_files.LOG + log_files.SWAP):
            segment = Segment.load(disk, directory, _offset(name), config, suffix=log_files.SWAP)
            ranges.append((segment.base_offset, segment.next_offset()))
            segment.close()
    originals = [
        name
        for name in disk.listdir(directory)
        if (parsed := log_files.parse_segment_file(name))
        and parsed[1] != log_files.SNAPSHOT
        and any(start <= parsed[0] < end for start, end in ranges)
    ]
    _remove(disk, directory, originals)
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(log_files.SWAP)}")
    disk.sync_dir(directory)


def _remove(disk: Disk, directory: str, names: list[str]) -> None:
    """Remove files and make that durable."""
    for name in names:
        disk.remove(f"{directory}/{name}")
    if names:
        disk.sync_dir(directory)


def _offset(name: str) -> int:
    """The offset that a segment's file is named after, -1 if it is not one."""
    digits = name[:20]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else -1

"""What a crash left of a cleaning: undone before the point of no return, finished after it.

The steps of exchanging old segments for a new one, and what a crash after each leaves:

1. `.cleaned` files are written and synced: the old segments stand, the new files are deleted.
2. They are renamed to `.swap` and the directory is synced, the point of no return: every old segment that
   begins inside the new one is dropped. The new one ends exactly where the last of them ended
   (`cleaner_filter`), so these are all of them and no others.
3. The old segments are renamed to `.deleted` and the directory is synced.
4. The `.swap` suffix is dropped and the directory is synced.

Must run before the segments of a log are listed, after a clean stop too: a cleaning may have been under way.
"""

from __future__ import annotations

from ottla.base.files import Disk
from ottla.storage import log_files
from ottla.storage.batch_scan import walk


def finish_swaps(disk: Disk, directory: str) -> None:
    """After a crash: undo what was being cleaned, finish what was being swapped in.

    A `.swap` beside a `.cleaned` file of the same or a lower offset was not yet complete, and goes too.
    """
    cleaned = _with_suffix(disk, directory, log_files.CLEANED)
    swaps = _with_suffix(disk, directory, log_files.SWAP)
    if not cleaned and not swaps:
        return
    incomplete_from = min((offset for offset, _ in cleaned), default=None)
    complete = {
        offset
        for offset, kind in swaps
        if kind == log_files.LOG and (incomplete_from is None or offset < incomplete_from)
    }
    for base_offset in sorted(complete):
        _drop_replaced(disk, directory, base_offset)
    disk.sync_dir(directory)
    # The log last: while its name still says swap, the rest can be done again.
    for offset, kind in sorted(swaps, key=lambda swap: swap[1] == log_files.LOG):
        path = log_files.segment_file(directory, offset, kind)
        if offset in complete:
            disk.rename(path + log_files.SWAP, path)
        else:
            disk.remove(path + log_files.SWAP)
    for offset, kind in cleaned:
        disk.remove(log_files.segment_file(directory, offset, kind) + log_files.CLEANED)
    disk.sync_dir(directory)


def _with_suffix(disk: Disk, directory: str, suffix: str) -> list[tuple[int, str]]:
    names = (name.removesuffix(suffix) for name in disk.listdir(directory) if name.endswith(suffix))
    return [found for found in map(log_files.parse_segment_file, names) if found is not None]


def _drop_replaced(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove the segments that begin inside of the one that is to take their place."""
    path = log_files.segment_file(directory, base_offset, log_files.LOG) + log_files.SWAP
    file = disk.open(path)
    try:
        end_offset = base_offset + 1
        for _, header in walk(file, 0, file.size()):
            end_offset = header.last_offset + 1
    finally:
        file.close()
    for name in disk.listdir(directory):
        found = log_files.parse_segment_file(name)
        if (
            found is not None
            and found[1] in log_files.SEGMENT_SUFFIXES
            and base_offset <= found[0] < end_offset
        ):
            disk.remove(f"{directory}/{name}")

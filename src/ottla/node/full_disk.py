"""Full disks: detection, advice for the operator, and the check that there is space again.

A directory on a full disk goes offline like one on a broken disk. If no other broker can take over, the process waits
until the disk has space and then starts the node again, with the recovery that follows a kill (decision 24).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ottla.base.errors import StorageFault
from ottla.base.files import Disk

CHECK_INTERVAL_S: Final = 2.0
FREE_BYTES_MAX: Final = 256 << 20
FREE_SHARE: Final = 20
"""One part of so many of the disk must be free, at most `FREE_BYTES_MAX`."""
_PROBE_FILE: Final = ".ottla-space-probe"
_PROBE_BYTES: Final = 1 << 20


def is_full(error: BaseException | None) -> bool:
    """Whether the error was caused by a full disk or an exhausted quota."""
    while isinstance(error, StorageFault):
        error = error.cause
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def required_bytes(disk: Disk, path: str) -> int:
    """How much of the disk must be free before the node is started again."""
    return min(FREE_BYTES_MAX, disk.total_bytes(path) // FREE_SHARE)


def has_space(disk: Disk, paths: Iterable[str]) -> bool:
    """Whether all directories have enough space and can be written to. Blocks."""
    try:
        return all(
            disk.free_bytes(path) >= required_bytes(disk, path) and _is_writable(disk, path) for path in paths
        )
    except OSError:
        return False


def _is_writable(disk: Disk, path: str) -> bool:
    """Write and sync a file: free space may be reserved, or a quota may be exhausted."""
    probe = f"{path}/{_PROBE_FILE}"
    try:
        file = disk.open(probe, create=True)
        try:
            file.pwritev([bytes(_PROBE_BYTES)], 0, sync=True)
        finally:
            file.close()
    except OSError:
        return False
    finally:
        with suppress(OSError):
            disk.remove(probe)
    return True

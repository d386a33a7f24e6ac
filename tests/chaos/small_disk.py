"""Small file systems for the data of brokers, which can be filled and emptied: a tmpfs for each data directory.

Mounting needs root. A broker sees what a full disk gives: a write that is cut short, then ENOSPC for writes, new files
and directories. What was written before stays, also after a kill of the process.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

SIZE_MIB = 256
_FILLER = "filler"
_PIECE_BYTES = 1 << 20


def unavailable() -> str | None:
    """Why disks cannot be filled here; None if they can."""
    if os.geteuid() != 0:
        return "mounting a tmpfs needs root"
    return None if shutil.which("mount") else "mount is not installed"


class SmallDisk:
    """A tmpfs at the data directory of one broker."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self.path = path
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "ottla-chaos", str(path)]
        subprocess.run(command, check=True)

    def fill(self) -> None:
        """Use up all free space."""
        piece = bytes(_PIECE_BYTES)
        file = os.open(self.path / _FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while piece:
                try:
                    os.write(file, piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece = piece[: len(piece) // 2]
        finally:
            os.close(file)

    @property
    def free(self) -> int:
        """Free bytes."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def empty(self) -> None:
        """Give back what `fill` has used up."""
        (self.path / _FILLER).unlink()

    def unmount(self, *, keep: bool = False) -> None:
        """Remove the file system; `keep` what it contains, on the disk below it."""
        kept = self.path.with_name(f"{self.path.name}-kept")
        if keep:
            shutil.copytree(self.path, kept, ignore=shutil.ignore_patterns(_FILLER))
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
        if keep:
            shutil.rmtree(self.path)
            kept.rename(self.path)

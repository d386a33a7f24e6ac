"""A file lock in the state directory, which prevents two runs of a pipeline at the same time.

Two runs with the same checkpoints would damage them. The operating system releases the lock when the process ends,
and child processes do not inherit it. The lock is valid on this machine only: if several machines share the directory,
the operator has to prevent a second run.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError

FILE: Final = "lock"


@contextmanager
def run_lock(folder: Path, pipeline: str) -> Iterator[None]:
    """Lock the state directory; raises `LocalError` if another run has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LocalError(
                f"pipeline {pipeline} is already running with the state directory {folder} (process "
                f"{file.read().strip() or '?'}); use another --state for a second run"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield

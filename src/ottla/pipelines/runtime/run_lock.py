"""One run of a pipeline at a time: a lock on a file of its state folder, held for as long as the run lasts.

Two runs over the same checkpoints would destroy them. The system lets go of the lock when the process ends, however
it ends, and does not give it to the processes that this one starts. The lock counts on this machine only: a folder
that several machines share is the operator's to watch.
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
    """Held while the body runs; raises `LocalError` when another run has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LocalError(
                f"pipeline {pipeline} already runs from {folder}, as process {file.read().strip() or '?'}; "
                "a second run needs another --state"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield

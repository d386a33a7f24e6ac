"""Garbage collection in Spark's Python worker processes.

After each task Spark's daemon runs a full garbage collection, which scans all imported modules. That takes some ten
milliseconds of CPU time in each of four processes, a tenth of a short batch, and frees nothing.
"""

from __future__ import annotations

import gc
import sys

_frozen_modules = 0


def freeze_imports() -> None:
    """Exclude imported modules from garbage collection; cheap if nothing new was imported.

    Each task calls it, because many modules, such as pandas, are imported only while the first tasks run.
    """
    global _frozen_modules  # noqa: PLW0603 - per process
    if len(sys.modules) != _frozen_modules:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)

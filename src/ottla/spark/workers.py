"""The Python processes that Spark forks for tasks, plans and commits, and keeps for the next ones.

After each piece of work Spark's daemon lets the garbage collector look at everything that a process has imported. That
is some ten milliseconds of a core in each of four processes, a tenth of a short batch, and finds nothing.
"""

from __future__ import annotations

import gc
import sys

_frozen_modules = 0


def freeze_imports() -> None:
    """Take what is imported out of the collector's sight; cheap to call when nothing is new.

    To be called by every task: much is imported only while the first ones run, pandas above all.
    """
    global _frozen_modules  # noqa: PLW0603 - of this process
    if len(sys.modules) != _frozen_modules:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)

"""The Python processes that Spark forks for tasks, plans and commits, and keeps for the next ones.

After each piece of work Spark's daemon lets the garbage collector look at everything that a process has imported. That
is some ten milliseconds of a core in each of four processes, a tenth of a short batch, and finds nothing.
"""

from __future__ import annotations

import gc

_frozen = False


def freeze_imports() -> None:
    """Take what is there out of the collector's sight; once per process, cheap to call."""
    global _frozen  # noqa: PLW0603 - once per worker process
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True

"""Checks of the requirements of Spark's real-time mode before a run starts.

All tasks of a real-time query run at the same time and never end: one for each partition that is read, and one for
each shuffle partition of an operation with state. With fewer task slots the query would never make progress. Pure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from ottla.base.errors import LocalError
from ottla.pipelines.declare import Pipeline, Topic
from ottla.pipelines.session import LOCAL

SHUFFLE: Final = "spark.sql.shuffle.partitions"
MASTER: Final = "local[32]"
"""Task slots are threads. In real-time mode most of them wait, so there can be far more slots than cores."""
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


def check_slots(
    pipeline: Pipeline, master: str, conf: Mapping[str, str], partitions: Mapping[str, int]
) -> None:
    """Raise `LocalError` for a local master with too few task slots, or a flow that real-time mode cannot run."""
    for flow in pipeline.flows.values():
        if isinstance(flow.writes, Topic) and flow.mode == "complete":
            raise LocalError(
                f'flow {flow.name}: real-time mode writes each change immediately: declare the flow with mode="update"'
            )
    slots = local_slots(master)
    if slots is None:
        return
    shuffle = int(conf.get(SHUFFLE, LOCAL[SHUFFLE]))
    needed = 1 + sum(
        shuffle + sum(partitions.get(source.name, 1) for source in flow.streams)
        for flow in pipeline.flows.values()
        if isinstance(flow.writes, Topic)
    )
    if slots < needed:
        raise LocalError(
            f"real-time mode runs all tasks at the same time: this pipeline needs {needed} task slots, "
            f"and {master} has {slots}. Slots are threads, not cores: use --master 'local[{needed}]'"
        )


def local_slots(master: str) -> int | None:
    """The number of task slots of a local master; None for a cluster, which is not checked."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)

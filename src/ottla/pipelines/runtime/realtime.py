"""What Spark's real-time mode needs beforehand, checked before anything starts.

All tasks of a real-time query run at the same time and never end: one for each partition that is read, and one for
each shuffle partition of what keeps state. With fewer task slots than that the query would wait for ever. Pure.
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
"""Slots are threads, and those of real-time mode mostly wait: far more of them than cores are right."""
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


def check_slots(
    pipeline: Pipeline, master: str, conf: Mapping[str, str], partitions: Mapping[str, int]
) -> None:
    """Refuses a local master with too few task slots, and flows that real-time mode can't run."""
    for flow in pipeline.flows.values():
        if isinstance(flow.writes, Topic) and flow.mode == "complete":
            raise LocalError(
                f'flow {flow.name}: real-time mode writes changes as they happen: declare it with mode="update"'
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
            f"real-time mode keeps all its tasks running at the same time: this pipeline needs {needed} task slots, "
            f"and {master} has {slots}. Slots are threads, not cores: --master 'local[{needed}]' is enough"
        )


def local_slots(master: str) -> int | None:
    """How many tasks run at once on a local master; None for a cluster, which is somebody else's to size."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)

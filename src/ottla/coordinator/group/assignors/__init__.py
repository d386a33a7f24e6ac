"""Server-side assignors: they assign the partitions of topics to the members of a consumer group."""

from __future__ import annotations

from ottla.coordinator.group.assignors.range import RangeAssignor
from ottla.coordinator.group.assignors.spec import Assignor
from ottla.coordinator.group.assignors.uniform import UniformAssignor

ASSIGNORS: dict[str, Assignor] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
"""All assignors by name."""

"""Server-side assignors: which member of a consumer group is to read which partition."""

from __future__ import annotations

from ottla.coordinator.group.assignors.range import RangeAssignor
from ottla.coordinator.group.assignors.spec import Assignor
from ottla.coordinator.group.assignors.uniform import UniformAssignor

ASSIGNORS: dict[str, Assignor] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
"""Every assignor there is, by the name under which members ask for it."""

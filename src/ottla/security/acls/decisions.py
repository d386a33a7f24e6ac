"""Decisions about the requests of one client that were made with the same ACL entries.

The connection of a client keeps them: a resource that is used again costs one dictionary lookup. Their number is
limited, because clients choose the names.
"""

from __future__ import annotations

from typing import Final

from ottla.security.resources import Operation, ResourceType

NAMES_MAX: Final = 1000
"""The most names of one type that are kept."""
_NAME_CHARS_MAX: Final = 255


class Decisions:
    """What one client may do, as far as it was decided. Valid while the epoch of the authorizer is `epoch`."""

    __slots__ = ("any_resource", "by_type", "epoch", "host", "principal")

    def __init__(self, epoch: int, principal: str, host: str) -> None:
        self.epoch: Final = epoch
        self.principal: Final = principal
        self.host: Final = host
        self.by_type: Final[tuple[dict[str, int], ...]] = tuple({} for _ in ResourceType)
        """For each type of resource: the operations that are allowed, by the name of the resource."""
        self.any_resource: Final[dict[tuple[Operation, ResourceType], bool]] = {}

    def keep(self, resource_type: ResourceType, name: str, operations: int) -> None:
        known = self.by_type[resource_type]
        if len(name) > _NAME_CHARS_MAX:
            return
        if len(known) >= NAMES_MAX:
            known.clear()
        known[name] = operations

"""State that the parts of one group shard share: settings, clock, metadata, and the table of groups.

Invariant: `groups` contains every group of the shard, of any type, by its id. A group changes its type by being
replaced. Only the replay of a record adds or removes a group that is stored in the log.

Concurrency: one shard, one thread.
"""

from __future__ import annotations

from ottla.base.clock import Clock
from ottla.base.rng import Random
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.settings import ConsumerSettings, GroupSettings
from ottla.coordinator.runtime.timers import Timers
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, ResourceType


class GroupContext:
    """Settings, clock, random generator, timers, metadata and groups of one shard."""

    __slots__ = ("clock", "groups", "image", "rng", "settings", "timers")

    def __init__(self, settings: GroupSettings, timers: Timers, clock: Clock, rng: Random) -> None:
        self.settings = settings
        self.timers = timers
        self.clock = clock
        self.rng = rng
        self.image: MetadataImage = EMPTY_IMAGE
        """The current metadata image; it is replaced, never modified."""
        self.groups: dict[str, Group] = {}

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """The current settings of one consumer group."""
        return self.settings.consumer(self.image.config(ResourceType.GROUP, group_id))

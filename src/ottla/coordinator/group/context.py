"""What the parts of one group shard share: its surroundings and the table of its groups.

Invariant: `groups` holds every group of the shard, of any kind, under its id; a group changes its kind by being
replaced. Only replaying a record adds or removes a group that the log knows.

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
    """Settings, time, randomness, metadata and groups of one shard."""

    __slots__ = ("clock", "groups", "image", "rng", "settings", "timers")

    def __init__(self, settings: GroupSettings, timers: Timers, clock: Clock, rng: Random) -> None:
        self.settings = settings
        self.timers = timers
        self.clock = clock
        self.rng = rng
        self.image: MetadataImage = EMPTY_IMAGE
        """The metadata as of now; replaced, never changed."""
        self.groups: dict[str, Group] = {}

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """The settings in force for one consumer group."""
        return self.settings.consumer(self.image.config(ResourceType.GROUP, group_id))

"""What every kind of group has in common, as seen by offsets, listings and deletion.

A group is the value of one key of the coordinator's table: a classic group (`classic/`) or a consumer group
(`consumer/`). Whoever asks here does not care which. Members, rebalances and assignments are the kinds' own.

The checks raise `ApiError` with the code that the client sees and change nothing.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from ottla.coordinator.runtime.decision import LogRecord

PartitionCheck = Callable[[uuid.UUID, int], None]
"""Whether an offset of this partition may be committed; refuses by raising, and with it the whole commit."""


class GroupKind(StrEnum):
    """The protocol by which a group is run, in the words of ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(ABC):
    """One group."""

    __slots__ = ("group_id",)

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as ListGroups and DescribeGroups spell it: Empty, Stable, …"""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """What ListGroups shows: "consumer", "connect", …; empty if no member ever said."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member reads the topic now, so that its offsets must neither expire nor be deleted."""

    @abstractmethod
    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> PartitionCheck | None:
        """Whether this member may commit offsets: of any partition, or of those that pass the check."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may be told offsets; with no member and a negative epoch anybody asks."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Whether single offsets may be deleted."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Whether the group as a whole may be deleted: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND if it is dead."""

    @abstractmethod
    def tombstones(self) -> list[LogRecord]:
        """Records that erase the group, without its offsets."""

    @abstractmethod
    def retention_start(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset committed at that time counts; None: it does not expire now."""

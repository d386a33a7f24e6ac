"""The interface of all types of groups, as used by offsets, listing and deletion.

A group is a classic group (`classic/`) or a consumer group (`consumer/`). Members, rebalances and assignments belong
to the types.

The checks raise `ApiError` with the error code for the client and change nothing.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from ottla.coordinator.runtime.decision import LogRecord

PartitionCheck = Callable[[uuid.UUID, int], None]
"""Raises ApiError if an offset of this partition may not be committed; the whole commit then fails."""


class GroupKind(StrEnum):
    """The type of a group, as in the response of ListGroups."""

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
        """The state as in ListGroups and DescribeGroups: Empty, Stable, …"""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The protocol type as in ListGroups: "consumer", "connect", …; empty if no member ever joined."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, so that its offsets must neither expire nor be deleted."""

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
        """Raise ApiError if this member may not commit offsets. A returned check applies to each partition."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiError if this member may not fetch offsets. Without a member and an epoch there is no check."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Raise ApiError if single offsets may not be deleted."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Raise NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND if it is dead, if the group may not be deleted."""

    @abstractmethod
    def tombstones(self) -> list[LogRecord]:
        """Records that delete the group, without its offsets."""

    @abstractmethod
    def retention_start(self, commit_timestamp_ms: int) -> int | None:
        """The start of the retention of an offset committed at that time; None: it cannot expire now."""

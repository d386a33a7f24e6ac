"""Periodic tasks of a group shard: removes expired offsets, abandoned groups, and offsets of deleted topics.

Each task may affect every group. It writes in slices that fit into a batch and continues in another decision, so that
requests are handled in between. The next slice follows when the one before is committed: if the log refuses a slice,
the task is not repeated at once.
"""

from __future__ import annotations

import uuid
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offset_manager import OffsetManager
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.metadata.delta import MetadataDelta

EXPIRY_TIMER: Final = "offset-expiry"
DELETED_TOPICS_TIMER: Final = "deleted-topics"
SLICE: Final = 500
"""About the number of offsets of one decision; with the longest topic names they take about 150 KB."""


class GroupCleanup:
    """The periodic tasks of one shard."""

    __slots__ = ("_context", "_deleted_topics", "_offsets")

    def __init__(self, context: GroupContext, offsets: OffsetManager) -> None:
        self._context = context
        self._offsets = offsets
        self._deleted_topics: dict[str, uuid.UUID] = {}

    def begin(self) -> None:
        """Schedule the next check for expired offsets."""
        interval_ms = self._context.settings.offsets_retention_check_interval_ms
        self._context.timers.schedule(EXPIRY_TIMER, interval_ms, self.expire)

    def expire(self) -> Decision[None]:
        """Remove expired offsets, and groups that have neither members nor offsets."""
        records: list[LogRecord] = []
        self.begin()
        for group in self._context.groups.values():
            records += self._expired(group)
            if len(records) >= SLICE:
                return Decision(None, records, self._continue_expiry)
        return Decision(None, records)

    def _continue_expiry(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._context.timers.schedule(EXPIRY_TIMER, 0, self.expire)

    def _expired(self, group: Group) -> list[LogRecord]:
        group_id = group.group_id
        records = self._offsets.expired(group)[:SLICE]
        keeps_offsets = self._offsets.count(group_id) > len(records)
        if group.is_empty() and not keeps_offsets and not self._offsets.store.has_pending(group_id):
            records += group.tombstones()
        return records

    def topics_changed(self, delta: MetadataDelta) -> None:
        """Schedule the removal of the offsets of deleted topics."""
        for topic_id in sorted(delta.deleted_topic_ids):
            self._deleted_topics[delta.base.topics.by_id[topic_id].name] = topic_id
        if self._deleted_topics:
            self._forget_soon(ErrorCode.NONE)

    def _forget_soon(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._context.timers.schedule(DELETED_TOPICS_TIMER, 0, self._forget_deleted_topics)

    def _forget_deleted_topics(self) -> Decision[None]:
        """Remove offsets of deleted topics; the topics are forgotten when no offset is left."""
        records = self._offsets.tombstones_of_topics(self._deleted_topics)
        if not records:
            self._deleted_topics.clear()
            return Decision(None)
        return Decision(None, records[:SLICE], self._forget_soon)

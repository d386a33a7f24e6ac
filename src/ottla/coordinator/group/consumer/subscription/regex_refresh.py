"""Resolves the regular expressions of groups: when a member subscribes, when topics are created, and periodically.

All regular expressions of a group are resolved together, so that they cause one new epoch. They match the topics that
the client may describe whose request causes it, as in Kafka. Resolving is not part of
the heartbeat that causes it: a timer that is due at once decides it afterwards. So a member with a new regular
expression gets its partitions with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.subscription import topic_regex
from ottla.coordinator.group.consumer.subscription.metadata_hash import MetadataHashes
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.runtime.decision import Decision, LogRecord

REFRESH_INTERVAL_MS_MIN = 10_000
"""The minimum interval between two refreshes of a group."""


Describes = Callable[[str], bool] | None
"""Whether a client may describe a topic; None: every topic."""


class RegexChange(Enum):
    """The change of a member's regular expression by a heartbeat."""

    NONE = "none"
    UPDATED = "updated"
    """Another regular expression, which is not resolved yet."""
    RESOLVED = "resolved"
    """Another regular expression that is resolved, or none: the group can be assigned at once."""


def refresh_timer(group_id: str) -> tuple[str, str]:
    return "consumer regex", group_id


class RegexRefresh:
    """The regular expressions of all groups."""

    __slots__ = ("_context", "_hashes", "topics_version")

    def __init__(self, context: GroupContext, hashes: MetadataHashes) -> None:
        self._context = context
        self._hashes = hashes
        self.topics_version = -1
        """The offset of the metadata image in which topics were last created."""

    def update(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        records: list[LogRecord],
        describes: Describes = None,
    ) -> RegexChange:
        """Handle a changed regular expression of a member and schedule a refresh if it is due."""
        change, is_new = RegexChange.NONE, False
        if before.topic_regex != after.topic_regex:
            change, is_new = self._replace(group, before.topic_regex, after.topic_regex, records)
        if is_new or group.subscriptions.regexes:
            self._refresh_if_due(group, before, after, describes, is_new=is_new)
        return change

    def _replace(
        self, group: ConsumerGroup, old: str | None, new: str | None, records: list[LogRecord]
    ) -> tuple[RegexChange, bool]:
        subscriptions = group.subscriptions
        if old and subscriptions.regexes.get(old) == 1:
            records.append(consumer_records.regex_tombstone(group.group_id, old))
        if not new:
            return (RegexChange.RESOLVED if old else RegexChange.UPDATED), False
        if new not in subscriptions.regexes:
            topic_regex.check(new)
            return RegexChange.UPDATED, True
        return (RegexChange.RESOLVED if new in subscriptions.resolved else RegexChange.UPDATED), False

    def _refresh_if_due(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        describes: Describes,
        *,
        is_new: bool,
    ) -> None:
        timer = refresh_timer(group.group_id)
        if self._context.timers.is_scheduled(timer):
            return
        subscriptions, now = group.subscriptions, self._context.clock.now_ms()
        if subscriptions.resolved and now <= subscriptions.refreshed_ms + REFRESH_INTERVAL_MS_MIN:
            return
        patterns = subscriptions.regexes_after([(before, after)])
        interval_ms = self._context.settings.consumer_regex_refresh_interval_ms
        due = (
            is_new
            or len(patterns) != len(subscriptions.resolved)
            or subscriptions.oldest_version < self.topics_version
            or now > subscriptions.refreshed_ms + interval_ms
        )
        if due and patterns:
            wanted = sorted(patterns)
            self._context.timers.schedule(timer, 0, lambda: self._refresh(group.group_id, wanted, describes))

    def _refresh(self, group_id: str, patterns: list[str], describes: Describes) -> Decision[None]:
        group = self._context.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Decision(None)
        subscriptions = group.subscriptions
        in_use = [pattern for pattern in patterns if pattern in subscriptions.regexes]
        found = topic_regex.resolve(in_use, self._context.image, self._context.clock.now_ms(), describes)
        records = [consumer_records.regex(group_id, pattern, resolved) for pattern, resolved in found.items()]
        differs = any(
            subscriptions.resolved.get(pattern, ResolvedRegex()).topics != resolved.topics
            for pattern, resolved in found.items()
        )
        metadata_hash = self._hashes.of(subscriptions.topics_after(resolved=found), self._context.image)
        if differs or metadata_hash != group.metadata_hash:
            records.append(consumer_records.group_epoch(group_id, group.epoch + 1, metadata_hash))
        return Decision(None, records)

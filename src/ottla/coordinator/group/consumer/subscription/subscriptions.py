"""The subscribed topics of a group: the topic names of its members and the resolved regular expressions.

Counts the members per name and per regular expression, so that a topic without subscribers is noticed without
iterating over the members. A regular expression is resolved once for the group; its topics count as long as a member
uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base.errors import invariant
from ottla.base.ids import Uuid
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex
from ottla.metadata.image import MetadataImage

Change = tuple[ConsumerMember | None, ConsumerMember | None]
"""A member before and after a change; None: not a member."""


def _count(counts: dict[str, int], name: str, step: int) -> None:
    left = counts.get(name, 0) + step
    invariant(left >= 0, f"negative count of members for {name!r}")
    if left:
        counts[name] = left
    else:
        counts.pop(name, None)


class Subscriptions:
    """Topic names and regular expressions of one group."""

    __slots__ = ("names", "regexes", "resolved")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        """Topic name -> number of members."""
        self.regexes: dict[str, int] = {}
        """Regular expression -> number of members."""
        self.resolved: dict[str, ResolvedRegex] = {}

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Update the counts for a member that joined, left or changed its subscription."""
        _apply((before, after), self.names, self.regexes)

    def has(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.names or any(topic in resolved.topics for resolved in self.resolved.values())

    def has_any(self, topics: Iterable[str]) -> bool:
        return any(map(self.has, topics))

    def regexes_after(self, changes: Iterable[Change]) -> dict[str, int]:
        """The regular expressions and their counts after these changes."""
        names, regexes = dict(self.names), dict(self.regexes)
        for change in changes:
            _apply(change, names, regexes)
        return regexes

    def topics_after(
        self, changes: Iterable[Change] = (), resolved: Mapping[str, ResolvedRegex] | None = None
    ) -> set[str]:
        """All subscribed topics after these changes, with these regular expressions resolved again."""
        names, regexes = dict(self.names), dict(self.regexes)
        for change in changes:
            _apply(change, names, regexes)
        known = {**self.resolved, **(resolved or {})}
        topics = set(names)
        for pattern in regexes:
            if pattern in known:
                topics |= known[pattern].topics
        return topics

    def topic_ids(self, member: ConsumerMember, image: MetadataImage) -> frozenset[Uuid]:
        """The existing topics of one member. An unresolved regular expression matches nothing."""
        names = member.topics
        if member.topic_regex and member.topic_regex in self.resolved:
            names |= self.resolved[member.topic_regex].topics
        by_name = image.topics.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)

    @property
    def refreshed_ms(self) -> int:
        """The time of the last refresh; -1: never."""
        return max((each.timestamp_ms for each in self.resolved.values()), default=-1)

    @property
    def oldest_version(self) -> int:
        """The oldest metadata offset of a resolved regular expression; -1 if there is none."""
        return min((each.version for each in self.resolved.values()), default=-1)


def _apply(change: Change, names: dict[str, int], regexes: dict[str, int]) -> None:
    before, after = change
    for member, step in ((after, 1), (before, -1)):
        if member is None:
            continue
        for topic in member.topics:
            _count(names, topic, step)
        if member.topic_regex:
            _count(regexes, member.topic_regex, step)

"""Which topics a group reads: by the names its members give, and by patterns that are resolved for all of them.

Counts members per name and per pattern, so that the last one to leave a topic is noticed without asking all others.
A pattern is resolved once for the group; its topics count as long as some member has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base.errors import invariant
from ottla.base.ids import Uuid
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex
from ottla.metadata.image import MetadataImage

Change = tuple[ConsumerMember | None, ConsumerMember | None]
"""A member before and after: None where it is not there."""


def _count(counts: dict[str, int], name: str, step: int) -> None:
    left = counts.get(name, 0) + step
    invariant(left >= 0, f"more members left {name!r} than came")
    if left:
        counts[name] = left
    else:
        counts.pop(name, None)


class Subscriptions:
    """Topics and patterns of one group."""

    __slots__ = ("names", "regexes", "resolved")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        """Topic -> members that name it."""
        self.regexes: dict[str, int] = {}
        """Pattern -> members that have it."""
        self.resolved: dict[str, ResolvedRegex] = {}

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """A member came, went, or reads something else."""
        _apply((before, after), self.names, self.regexes)

    def has(self, topic: str) -> bool:
        """Whether some member reads the topic."""
        return topic in self.names or any(topic in resolved.topics for resolved in self.resolved.values())

    def has_any(self, topics: Iterable[str]) -> bool:
        return any(map(self.has, topics))

    def regexes_after(self, changes: Iterable[Change]) -> dict[str, int]:
        """Patterns and their members if these changes were made."""
        names, regexes = dict(self.names), dict(self.regexes)
        for change in changes:
            _apply(change, names, regexes)
        return regexes

    def topics_after(
        self, changes: Iterable[Change] = (), resolved: Mapping[str, ResolvedRegex] | None = None
    ) -> set[str]:
        """All topics read if these changes were made and these patterns resolved anew."""
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
        """What one member reads, of the topics that exist. A pattern not resolved yet matches nothing."""
        names = member.topics
        if member.topic_regex and member.topic_regex in self.resolved:
            names |= self.resolved[member.topic_regex].topics
        by_name = image.topics.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)

    @property
    def refreshed_ms(self) -> int:
        """When patterns were last resolved; -1: never."""
        return max((each.timestamp_ms for each in self.resolved.values()), default=-1)

    @property
    def oldest_version(self) -> int:
        """The oldest metadata against which a pattern stands resolved; -1 if there is none."""
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

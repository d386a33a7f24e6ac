"""The `range` assignor: each topic is divided into contiguous ranges of partitions, one per subscriber.

Members have the same order for all topics, so members with the same topics get the same partition numbers of each
topic: topics with equal partition counts are co-partitioned. Members with an instance id come first, in the order of
these ids, so that they keep their ranges when they restart with another member id. If a topic does not divide evenly,
the first members get one partition more. The assignment is not sticky.
"""

from __future__ import annotations

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec


def _position(member: MemberSpec) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member.member_id
    return False, member.instance_id


class RangeAssignor:
    """Contiguous ranges of partitions, topic by topic."""

    name = "range"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        members = sorted(group.members, key=_position)
        targets: dict[str, dict[Uuid, frozenset[int]]] = {member.member_id: {} for member in members}
        for topic in group.topics():
            subscribers = [member for member in members if topic in member.topic_ids]
            if not subscribers:
                continue
            size, longer = divmod(group.partition_counts[topic], len(subscribers))
            start = 0
            for position, member in enumerate(subscribers):
                end = start + size + (position < longer)
                if end > start:
                    targets[member.member_id][topic] = frozenset(range(start, end))
                start = end
        return dict(targets)

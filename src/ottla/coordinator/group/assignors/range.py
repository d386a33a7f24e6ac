"""`range`: every topic is cut into as many runs of partitions as it has readers.

Members stand in one order for all topics, so those that read the same topics get the same numbers of each: topics
with equally many partitions are joined by key on one member (co-partitioning). Members with an instance id come
first, in the order of those ids, so that they keep their runs when they restart under another member id.
Where a topic does not divide evenly, the first members get one partition more. Nothing is sticky.
"""

from __future__ import annotations

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec


def _position(member: MemberSpec) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member.member_id
    return False, member.instance_id


class RangeAssignor:
    """Runs of partitions, topic by topic."""

    name = "range"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        members = sorted(group.members, key=_position)
        targets: dict[str, dict[Uuid, frozenset[int]]] = {member.member_id: {} for member in members}
        for topic in group.topics():
            readers = [member for member in members if topic in member.topic_ids]
            if not readers:
                continue
            size, longer = divmod(group.partition_counts[topic], len(readers))
            start = 0
            for position, member in enumerate(readers):
                end = start + size + (position < longer)
                if end > start:
                    targets[member.member_id][topic] = frozenset(range(start, end))
                start = end
        return dict(targets)

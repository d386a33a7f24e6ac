"""The `uniform` assignor: members get equal numbers of partitions, and as few partitions as possible move.

Members with the same subscriptions differ by at most one partition, and no partition moves that can stay: each member
keeps up to its fair share, and members that already have one partition more keep it while there is a remainder.
Members with different subscriptions are handled by `balance`.

The cost is linear in partitions and members when all subscribe to the same topics.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.balance import balanced
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec, frozen


class UniformAssignor:
    """Equal counts, sticky where possible."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        if not group.members:
            return {}
        return _equal_shares(group) if group.is_homogeneous() else balanced(group)


def _previous(
    member: MemberSpec, counts: dict[Uuid, int], taken: dict[Uuid, set[int]]
) -> list[tuple[Uuid, int]]:
    """The member's previous partitions that still exist and that no earlier member keeps, in order."""
    return [
        (topic, partition)
        for topic, partitions in sorted(member.assigned.items())
        if topic in counts
        for partition in sorted(partitions)
        if partition < counts[topic] and partition not in taken[topic]
    ]


def _equal_shares(group: GroupSpec) -> dict[str, Assignment]:
    counts = {topic: group.partition_counts[topic] for topic in group.topics()}
    members = sorted(group.members)
    share, remainder = divmod(sum(counts.values()), len(members))
    taken: dict[Uuid, set[int]] = {topic: set() for topic in counts}
    kept: dict[str, list[tuple[Uuid, int]]] = {}
    for member in members:
        previous = _previous(member, counts, taken)
        quota = share
        # A member with more than its share keeps one of the remaining partitions.
        if len(previous) > share and remainder:
            quota, remainder = share + 1, remainder - 1
        kept[member.member_id] = previous[:quota]
        for topic, partition in previous[:quota]:
            taken[topic].add(partition)
    free = _free(counts, taken)
    for member in members:
        own = kept[member.member_id]
        missing = share - len(own)
        if missing >= 0 and remainder:
            missing, remainder = missing + 1, remainder - 1
        own.extend(partition for _, partition in zip(range(missing), free, strict=False))
    return {member_id: _assignment(own) for member_id, own in kept.items()}


def _free(counts: dict[Uuid, int], taken: dict[Uuid, set[int]]) -> Iterator[tuple[Uuid, int]]:
    for topic, count in counts.items():
        for partition in range(count):
            if partition not in taken[topic]:
                yield topic, partition


def _assignment(owned: list[tuple[Uuid, int]]) -> Assignment:
    shares: dict[Uuid, list[int]] = {}
    for topic, partition in owned:
        shares.setdefault(topic, []).append(partition)
    return frozen(shares)

"""`uniform`: every member gets as many partitions as every other, give or take one, and few are moved.

Members that read the same topics differ by at most one partition, and no partition moves that could stay: each
keeps up to its fair share, and those who already hold one more than others keep it as long as there is a remainder
to hold. Members that read different topics are balanced by `balance`.

Cost: linear in partitions and members when all read the same topics.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.balance import balanced
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec, frozen


class UniformAssignor:
    """Equal counts, kept where possible."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        if not group.members:
            return {}
        return _equal_shares(group) if group.is_homogeneous() else balanced(group)


def _held(member: MemberSpec, counts: dict[Uuid, int], taken: dict[Uuid, set[int]]) -> list[tuple[Uuid, int]]:
    """What the member has of partitions that still exist and that nobody before it kept, in order."""
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
        held = _held(member, counts, taken)
        quota = share
        # Who holds more than the others keeps one of the partitions that remain.
        if len(held) > share and remainder:
            quota, remainder = share + 1, remainder - 1
        kept[member.member_id] = held[:quota]
        for topic, partition in held[:quota]:
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

"""Checker of partition ownership, as members themselves see it.

A member claims a partition from the moment it learns of the assignment until it releases the partition, is fenced, or
must assume that it is fenced: its session, or the timeout of a rebalance that it may have missed, has expired. These
times are counted from when the member *sent* its last successful heartbeat, so earlier than the coordinator counts.

Rule G1: two claims to one partition never overlap in time, and never exist in one generation.
"""

from __future__ import annotations

from ottla.base.ids import TopicPartition
from ottla.testing.sim.kernel.events import US_PER_MS, Kernel


class OwnershipChecker:
    """Records the claims of all members of all groups."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._owned: dict[tuple[str, TopicPartition], dict[str, int]] = {}  # -> member -> end of its claim
        self._shared: set[tuple[str, TopicPartition, str]] = set()
        """Claims that are not exclusive."""
        self._by_generation: dict[tuple[str, int, TopicPartition], str] = {}

    def claim(
        self,
        group: str,
        member: str,
        partitions: list[TopicPartition],
        until_us: int,
        generation: tuple[int, str] | None,
    ) -> None:
        """A member takes partitions. `generation`: number and member identity, for groups that have generations.

        A member that was paused may learn of its assignment after the end of its session: then it owns nothing.
        """
        now_us = self._kernel.now_us
        for tp in partitions:
            if generation is not None:
                number, identity = generation
                other = self._by_generation.setdefault((group, number, tp), identity)
                self._kernel.check(
                    other == identity,
                    "G1 a partition has one owner in a generation",
                    f"{group} {tp} in generation {number}: {other} and {identity}",
                )
            ownership = self._owned.setdefault((group, tp), {})
            for other, other_until_us in ownership.items():
                is_exclusive = (group, tp, other) not in self._shared
                if other != member and is_exclusive and other_until_us > now_us < until_us:
                    self._kernel.violated(
                        "G1 a partition has one owner at a time",
                        f"{group} {tp}: {member} claims it, {other} owns it until "
                        f"{other_until_us / US_PER_MS:.3f}",
                    )
            ownership[member] = until_us
            self._shared.discard((group, tp, member))

    def extend(
        self,
        group: str,
        member: str,
        partitions: list[TopicPartition],
        until_us: int,
        *,
        unverified: bool = False,
    ) -> None:
        """Extend the claims of a member whose heartbeat succeeded.

        `unverified`: the coordinator of a classic group confirms all heartbeats while it loads its log, as Kafka's
        does, also those of a member that an earlier coordinator has removed after the end of its session. So a claim
        that had ended is not exclusive any more, until the member claims the partition again.
        """
        for tp in partitions:
            ownership = self._owned.get((group, tp), {})
            if member in ownership:
                if unverified and ownership[member] <= self._kernel.now_us:
                    self._shared.add((group, tp, member))
                ownership[member] = max(ownership[member], until_us)

    def release(self, group: str, member: str, partitions: list[TopicPartition]) -> None:
        """End the claims of a member."""
        for tp in partitions:
            self._owned.get((group, tp), {}).pop(member, None)

    def owners(self, group: str, tp: TopicPartition) -> list[str]:
        """The members that currently claim a partition."""
        ownership = self._owned.get((group, tp), {})
        return [member for member, until_us in ownership.items() if until_us > self._kernel.now_us]

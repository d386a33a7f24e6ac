"""What members believe to own, as they see it themselves.

A member claims a partition from the moment it learns of it until it gives it back, is told that it is out, or has
heard nothing for so long that it must assume the worst: its session, or the rebalance it may have missed, is over
(counted from when it *sent* the last heartbeat that went well, so earlier than the coordinator counts).

Rule G1: two claims to one partition never hold at the same time, nor in the same generation at any time.
"""

from __future__ import annotations

from ottla.base.ids import TopicPartition
from ottla.testing.sim.kernel.events import US_PER_MS, Kernel


class OwnershipChecker:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._owned: dict[tuple[str, TopicPartition], dict[str, int]] = {}  # -> member -> until when
        self._by_generation: dict[tuple[str, int, TopicPartition], str] = {}

    def claim(
        self,
        group: str,
        member: str,
        partitions: list[TopicPartition],
        until_us: int,
        generation: tuple[int, str] | None,
    ) -> None:
        """A member takes partitions; `generation` and who it is there, if the group has such."""
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
                if other != member and other_until_us > self._kernel.now_us:
                    self._kernel.violated(
                        "G1 a partition has one owner at a time",
                        f"{group} {tp}: {member} takes it, {other} has it until "
                        f"{other_until_us / US_PER_MS:.3f}",
                    )
            ownership[member] = until_us

    def extend(self, group: str, member: str, partitions: list[TopicPartition], until_us: int) -> None:
        """A heartbeat went well."""
        for tp in partitions:
            ownership = self._owned.get((group, tp), {})
            if member in ownership:
                ownership[member] = max(ownership[member], until_us)

    def release(self, group: str, member: str, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self._owned.get((group, tp), {}).pop(member, None)

    def owners(self, group: str, tp: TopicPartition) -> list[str]:
        ownership = self._owned.get((group, tp), {})
        return [member for member, until_us in ownership.items() if until_us > self._kernel.now_us]

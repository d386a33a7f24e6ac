"""What members believe to own, as they see it themselves.

A member claims a partition from the moment it learns of it until it gives it back, is told that it is out, or has
heard nothing for so long that it must assume the worst: its session, or the rebalance it may have missed, is over
(counted from when it *sent* the last heartbeat that went well, so earlier than the coordinator counts).

Rule G1: two claims to one partition never hold at the same time, nor in the same generation at any time.
"""

from __future__ import annotations

from ottla.base.ids import TopicPartition
from ottla.testing.sim.kernel import US_PER_MS, Kernel


class Claims:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._held: dict[tuple[str, TopicPartition], dict[str, int]] = {}  # -> member -> until when
        self._by_generation: dict[tuple[str, int, TopicPartition], str] = {}

    def claim(
        self,
        group: str,
        member: str,
        places: list[TopicPartition],
        until_us: int,
        generation: tuple[int, str] | None,
    ) -> None:
        """A member takes partitions; `generation` and who it is there, if the group has such."""
        for place in places:
            if generation is not None:
                number, identity = generation
                other = self._by_generation.setdefault((group, number, place), identity)
                self._kernel.check(
                    other == identity,
                    "G1 a partition has one owner in a generation",
                    f"{group} {place} in generation {number}: {other} and {identity}",
                )
            claims = self._held.setdefault((group, place), {})
            for other, other_until_us in claims.items():
                if other != member and other_until_us > self._kernel.now_us:
                    self._kernel.violated(
                        "G1 a partition has one owner at a time",
                        f"{group} {place}: {member} takes it, {other} has it until "
                        f"{other_until_us / US_PER_MS:.3f}",
                    )
            claims[member] = until_us

    def extend(self, group: str, member: str, places: list[TopicPartition], until_us: int) -> None:
        """A heartbeat went well."""
        for place in places:
            claims = self._held.get((group, place), {})
            if member in claims:
                claims[member] = max(claims[member], until_us)

    def drop(self, group: str, member: str, places: list[TopicPartition]) -> None:
        for place in places:
            self._held.get((group, place), {}).pop(member, None)

    def owners(self, group: str, place: TopicPartition) -> list[str]:
        claims = self._held.get((group, place), {})
        return [member for member, until_us in claims.items() if until_us > self._kernel.now_us]

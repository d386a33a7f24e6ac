"""Balance among members that read different topics: the general part of the `uniform` assignor.

Three steps. Everyone keeps what it has of topics that it still reads. What nobody has goes, topic by topic, to the
reader with the fewest partitions; topics with the most partitions per reader first, as they leave least choice.
Then, round after round, partitions of one topic move from its most to its least loaded reader, while the two differ
by more than one: each move makes the group more even, and a topic's readers end within one partition of each
other unless other topics hold them apart.

Rounds are bounded. Overlapping subscriptions may in theory take many, each mending less than the one before; most
groups are done in one, and a second finds nothing to do.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, frozen

ROUNDS_MAX = 16


class _Shares:
    """Who has what, while it changes. Members are known by their place in the sorted list."""

    def __init__(self, group: GroupSpec) -> None:
        self.members = sorted(group.members)
        self.counts = group.partition_counts
        self.readers: dict[Uuid, list[int]] = defaultdict(list)
        for index, member in enumerate(self.members):
            for topic in member.topic_ids:
                self.readers[topic].append(index)
        self.owned: list[dict[Uuid, set[int]]] = []
        self.load: list[int] = []
        self.unowned: dict[Uuid, list[int]] = {}
        self._keep()
        # Most partitions per reader first; then fewest readers; then by id, so that the result is always the same.
        self.topics = sorted(
            self.readers,
            key=lambda topic: (
                -self.counts[topic] / len(self.readers[topic]),
                len(self.readers[topic]),
                topic,
            ),
        )

    def _keep(self) -> None:
        taken: dict[Uuid, set[int]] = defaultdict(set)
        for member in self.members:
            mine: dict[Uuid, set[int]] = defaultdict(set)
            for topic, partitions in member.assigned.items():
                if topic in member.topic_ids:
                    still = {each for each in partitions if each < self.counts[topic]} - taken[topic]
                    taken[topic] |= still
                    mine[topic] = still
            self.owned.append(mine)
            self.load.append(sum(map(len, mine.values())))
        for topic in self.readers:
            free = [each for each in range(self.counts[topic]) if each not in taken[topic]]
            if free:
                self.unowned[topic] = free

    def place_unowned(self) -> None:
        """Give away what nobody has."""
        for topic in self.topics:
            waiting = [(self.load[index], index) for index in self.readers[topic]]
            heapq.heapify(waiting)
            for partition in self.unowned.get(topic, ()):
                load, index = waiting[0]
                self.owned[index][topic].add(partition)
                self.load[index] += 1
                heapq.heapreplace(waiting, (load + 1, index))

    def even_out(self, topic: Uuid) -> int:
        """Move partitions of one topic from its most to its least loaded readers; how many moved."""
        light = [(self.load[index], index) for index in self.readers[topic]]
        heavy = [(-self.load[index], index) for index in self.readers[topic] if self.owned[index][topic]]
        heapq.heapify(light)
        heapq.heapify(heavy)
        moved = 0
        while heavy:
            load, giver = heavy[0]
            least, taker = light[0]
            if -load - least <= 1:
                break
            partition = max(self.owned[giver][topic])
            self.owned[giver][topic].remove(partition)
            self.owned[taker][topic].add(partition)
            self.load[giver] -= 1
            self.load[taker] += 1
            moved += 1
            heapq.heapreplace(light, (least + 1, taker))
            if self.owned[giver][topic]:
                heapq.heapreplace(heavy, (load + 1, giver))
            else:
                heapq.heappop(heavy)
        return moved


def balanced(group: GroupSpec) -> dict[str, Assignment]:
    """Targets for members whose subscriptions differ."""
    shares = _Shares(group)
    shares.place_unowned()
    contested = [topic for topic in shares.topics if len(shares.readers[topic]) > 1]
    for _ in range(ROUNDS_MAX):
        if not sum(shares.even_out(topic) for topic in contested):
            break
    return {
        member.member_id: frozen(owned) for member, owned in zip(shares.members, shares.owned, strict=True)
    }

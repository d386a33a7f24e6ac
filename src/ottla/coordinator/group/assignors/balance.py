"""The general case of the `uniform` assignor: members with different subscriptions.

There are three steps. Each member keeps its partitions of topics to which it still subscribes. Unassigned partitions
are assigned, topic by topic, to the subscriber with the fewest partitions; topics with the most partitions per
subscriber first, because they have the least choice. Then, in rounds, partitions of one topic move from its most
loaded to its least loaded subscriber while the two differ by more than one. Each move makes the group more even. In
the end the subscribers of a topic differ by at most one partition unless other topics prevent it.

The number of rounds is limited. Overlapping subscriptions can in theory need many rounds, each with less effect; most
groups need one, and the second one finds nothing to do.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, frozen

ROUNDS_MAX = 16


class _Shares:
    """The assignment while it is computed. Members are identified by their index in the sorted list."""

    def __init__(self, group: GroupSpec) -> None:
        self.members = sorted(group.members)
        self.counts = group.partition_counts
        self.subscribers: dict[Uuid, list[int]] = defaultdict(list)
        for index, member in enumerate(self.members):
            for topic in member.topic_ids:
                self.subscribers[topic].append(index)
        self.owned: list[dict[Uuid, set[int]]] = []
        self.load: list[int] = []
        self.unowned: dict[Uuid, list[int]] = {}
        self._keep()
        # Most partitions per subscriber first, then fewest subscribers, then by id, for a deterministic result.
        self.topics = sorted(
            self.subscribers,
            key=lambda topic: (
                -self.counts[topic] / len(self.subscribers[topic]),
                len(self.subscribers[topic]),
                topic,
            ),
        )

    def _keep(self) -> None:
        taken: dict[Uuid, set[int]] = defaultdict(set)
        for member in self.members:
            own: dict[Uuid, set[int]] = defaultdict(set)
            for topic, partitions in member.assigned.items():
                if topic in member.topic_ids:
                    kept = {each for each in partitions if each < self.counts[topic]} - taken[topic]
                    taken[topic] |= kept
                    own[topic] = kept
            self.owned.append(own)
            self.load.append(sum(map(len, own.values())))
        for topic in self.subscribers:
            free = [each for each in range(self.counts[topic]) if each not in taken[topic]]
            if free:
                self.unowned[topic] = free

    def assign_unowned(self) -> None:
        """Assign the unassigned partitions."""
        for topic in self.topics:
            waiting = [(self.load[index], index) for index in self.subscribers[topic]]
            heapq.heapify(waiting)
            for partition in self.unowned.get(topic, ()):
                load, index = waiting[0]
                self.owned[index][topic].add(partition)
                self.load[index] += 1
                heapq.heapreplace(waiting, (load + 1, index))

    def even_out(self, topic: Uuid) -> int:
        """Move partitions of one topic from its most to its least loaded subscribers; returns the number of moves."""
        light = [(self.load[index], index) for index in self.subscribers[topic]]
        heavy = [(-self.load[index], index) for index in self.subscribers[topic] if self.owned[index][topic]]
        heapq.heapify(light)
        heapq.heapify(heavy)
        moved = 0
        while heavy:
            load, source = heavy[0]
            least, target = light[0]
            if -load - least <= 1:
                break
            partition = max(self.owned[source][topic])
            self.owned[source][topic].remove(partition)
            self.owned[target][topic].add(partition)
            self.load[source] -= 1
            self.load[target] += 1
            moved += 1
            heapq.heapreplace(light, (least + 1, target))
            if self.owned[source][topic]:
                heapq.heapreplace(heavy, (load + 1, source))
            else:
                heapq.heappop(heavy)
        return moved


def balanced(group: GroupSpec) -> dict[str, Assignment]:
    """The targets of members whose subscriptions differ."""
    shares = _Shares(group)
    shares.assign_unowned()
    contested = [topic for topic in shares.topics if len(shares.subscribers[topic]) > 1]
    for _ in range(ROUNDS_MAX):
        if not sum(shares.even_out(topic) for topic in contested):
            break
    return {
        member.member_id: frozen(owned) for member, owned in zip(shares.members, shares.owned, strict=True)
    }

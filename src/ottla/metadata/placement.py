"""Placement of the replicas of new partitions: alternating between racks, with evenly distributed leaders.

The brokers form a ring in which racks alternate (racks in order of their lowest broker id, brokers of a rack by
id): two racks 0,1,2 and 3,4,5 give 0, 3, 1, 4, 2, 5. The leader of a partition is the broker that leads the fewest
partitions of its topic, then the fewest partitions of all topics, then the next one in the ring after the leader of
the partition before. In an empty cluster these are the brokers in the order of the ring, and each topic continues
where the last one stopped. The numbers are counted in the image: leaders stay even (the difference is at most 1)
under a new controller too, and later topics fill the gaps that deleted topics leave.

Each follower is the next broker of the ring whose rack has the fewest replicas of the partition so far. With racks of
equal size these are the next brokers of the ring; with racks of different size some are skipped, so that a partition
is never in one rack only while another rack has a free broker.

A broker that is fenced or shutting down gets replicas only if there are too few others, and never leads.

Pure: the result depends on the arguments only, so equal images give equal placements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import Uuid
from ottla.metadata.image import BrokerImage, MetadataImage, TopicImage


def ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """Brokers in an order in which racks alternate; brokers without a rack form one unnamed rack."""
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda b: b.broker_id):
        racks.setdefault(broker.rack, []).append(broker)
    depth = max(map(len, racks.values()), default=0)
    return [rack[row] for row in range(depth) for rack in racks.values() if row < len(rack)]


class Leaders:
    """The numbers of partitions that brokers lead by their assignment: of one topic, and of all."""

    def __init__(self, total: Counter[int], topic: Iterable[int] = (), after: int | None = None) -> None:
        """`total` is changed by `next`, so that the topics of one request follow each other."""
        self._total = total
        self._topic = Counter(topic)
        self._after = after

    def next(self, candidates: Sequence[BrokerImage]) -> int:
        """The position of the next leader in a ring; it is counted."""
        previous = next((at for at, each in enumerate(candidates) if each.broker_id == self._after), -1)
        size = len(candidates)

        def load(position: int) -> tuple[int, int, int]:
            broker_id = candidates[position].broker_id
            return self._topic[broker_id], self._total[broker_id], (position - previous - 1) % size

        chosen = min(range(size), key=load)
        self._after = candidates[chosen].broker_id
        self._topic[self._after] += 1
        self._total[self._after] += 1
        return chosen


def preferred_leaders(image: MetadataImage) -> Counter[int]:
    """The number of partitions of which each broker is the preferred leader."""
    return Counter(
        partition.replicas[0]
        for topic in image.topics.by_id.values()
        for partition in topic.partitions.values()
    )


def place_partitions(
    image: MetadataImage, count: int, replication_factor: int, leaders: Leaders
) -> list[list[int]]:
    """Replicas, leader first, of `count` new partitions.

    Raises ApiError INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    registered = image.brokers.values()
    active = ring(b for b in registered if b.active)
    spares = ring(b for b in registered if not b.active)
    if replication_factor > len(active) + len(spares):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a partition needs {replication_factor} brokers, {len(active) + len(spares)} are registered",
        )
    if not active:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "no registered broker can lead a partition: all are fenced or shutting down",
        )
    return [_place_one(active, spares, leaders.next(active), replication_factor) for _ in range(count)]


def _place_one(
    active: Sequence[BrokerImage], spares: Sequence[BrokerImage], position: int, replication_factor: int
) -> list[int]:
    candidates = [*active[position:], *active[:position]]
    chosen = [candidates.pop(0)]
    per_rack = Counter([chosen[0].rack])
    while len(chosen) < replication_factor:
        if not candidates:
            candidates = [b for b in spares if b not in chosen]
        fewest = min(per_rack[b.rack] for b in candidates)
        follower = next(b for b in candidates if per_rack[b.rack] == fewest)
        candidates.remove(follower)
        chosen.append(follower)
        per_rack[follower.rack] += 1
    return [b.broker_id for b in chosen]


def last_leader(image: MetadataImage) -> int | None:
    """The first replica of the last partition of the newest topic."""
    if not image.topics.by_id:
        return None
    newest_id = next(reversed(cast("dict[Uuid, TopicImage]", image.topics.by_id)))
    return last_leader_of(image.topics.by_id[newest_id])


def last_leader_of(topic: TopicImage) -> int | None:
    """The first replica of the last partition of a topic."""
    return topic.partitions[max(topic.partitions)].replicas[0] if topic.partitions else None


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Refuse a manual assignment that is empty, has unknown or repeated brokers, or not `expected` replicas."""
    if not replicas:
        raise _bad_assignment("a partition has no replicas")
    unknown = [broker for broker in replicas if broker not in image.brokers]
    if unknown:
        raise _bad_assignment(f"broker {min(unknown)} is not registered")
    if len(set(replicas)) != len(replicas):
        raise _bad_assignment(f"replicas {list(replicas)} name a broker more than once")
    if expected is not None and len(replicas) != expected:
        raise _bad_assignment(f"one partition has {len(replicas)} replicas, another {expected}")


def _bad_assignment(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)

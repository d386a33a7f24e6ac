"""Where the replicas of new partitions go: rack by rack in turn, starting where the last topic stopped.

The brokers form a circle in which racks take turns (racks in order of their lowest broker id, brokers of a
rack by id): two racks 0,1,2 and 3,4,5 give 0, 3, 1, 4, 2, 5. Partition *i* is led by the place after its
predecessor's. Followers are found by walking on from the leader, taking at each step the next broker of a
rack that holds the fewest replicas of the partition so far. With racks of one size these are simply the
next places; with racks of different sizes the walk skips some, so that a partition never sits in one rack
while another could hold a copy.

A broker that is fenced or shutting down takes replicas only when there are too few others, and never leads.

Pure: everything depends on the arguments alone, so that equal images place equally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import Uuid
from ottla.metadata.image import BrokerImage, MetadataImage, TopicImage


def circle(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """Brokers in the order in which racks take turns; a broker without a rack is in a nameless one."""
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda b: b.broker_id):
        racks.setdefault(broker.rack, []).append(broker)
    depth = max(map(len, racks.values()), default=0)
    return [rack[row] for row in range(depth) for rack in racks.values() if row < len(rack)]


def place_partitions(
    image: MetadataImage, count: int, replication_factor: int, *, after: int | None
) -> list[list[int]]:
    """Replicas, leader first, of `count` new partitions; the first is led by the place after broker `after`.

    Raises ApiError INVALID_REPLICATION_FACTOR if the brokers do not suffice.
    """
    registered = image.brokers.values()
    leaders = circle(b for b in registered if b.active)
    spares = circle(b for b in registered if not b.active)
    if replication_factor > len(leaders) + len(spares):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a partition needs {replication_factor} brokers, {len(leaders) + len(spares)} are registered",
        )
    if not leaders:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "no registered broker is ready to lead a partition"
        )
    start = next((place + 1 for place, b in enumerate(leaders) if b.broker_id == after), 0)
    return [
        _place_one(leaders, spares, (start + step) % len(leaders), replication_factor)
        for step in range(count)
    ]


def _place_one(
    leaders: Sequence[BrokerImage], spares: Sequence[BrokerImage], place: int, replication_factor: int
) -> list[int]:
    waiting = [*leaders[place:], *leaders[:place]]
    chosen = [waiting.pop(0)]
    per_rack = Counter([chosen[0].rack])
    while len(chosen) < replication_factor:
        if not waiting:
            waiting = [b for b in spares if b not in chosen]
        fewest = min(per_rack[b.rack] for b in waiting)
        follower = next(b for b in waiting if per_rack[b.rack] == fewest)
        waiting.remove(follower)
        chosen.append(follower)
        per_rack[follower.rack] += 1
    return [b.broker_id for b in chosen]


def last_place(image: MetadataImage) -> int | None:
    """The broker at which the placement of the newest topic ended."""
    if not image.topics.by_id:
        return None
    newest_id = next(reversed(cast("dict[Uuid, TopicImage]", image.topics.by_id)))
    return last_place_of(image.topics.by_id[newest_id])


def last_place_of(topic: TopicImage) -> int | None:
    """The broker that was to lead the last partition of a topic."""
    return topic.partitions[max(topic.partitions)].replicas[0] if topic.partitions else None


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Refuse replicas chosen by hand that are empty, unknown, repeated, or fewer or more than `expected`."""
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

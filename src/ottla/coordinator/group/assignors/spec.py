"""What an assignor is given and what it gives back.

An assignor is a pure function of the group: the members with their subscriptions and what each is meant to have
so far, and the sizes of the topics. It knows nothing of epochs, records or revocation: how a group gets from
what its members hold to what they are meant to hold is the coordinator's concern.

An assignment maps a topic to partitions; a topic without partitions does not appear in it. What comes back has an
entry for every member, and gives every partition of every subscribed topic to exactly one subscriber.

Racks: members tell theirs and it is kept, but like those of Kafka 4.3 the assignors do not look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from ottla.base.ids import Uuid

Assignment = Mapping[Uuid, frozenset[int]]

NOTHING: Assignment = {}


class MemberSpec(NamedTuple):
    """One member: who it is, what it reads, what it is meant to have now."""

    member_id: str
    topic_ids: frozenset[Uuid]
    assigned: Assignment = NOTHING
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group to be assigned. `partition_counts` has every topic that some member reads, and no other."""

    members: list[MemberSpec]
    partition_counts: Mapping[Uuid, int]

    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        return len({member.topic_ids for member in self.members}) <= 1

    def topics(self) -> list[Uuid]:
        """The topics in the order in which all assignors look at them."""
        return sorted(self.partition_counts)


class Assignor(Protocol):
    """A way to spread partitions over members."""

    @property
    def name(self) -> str: ...

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """The target of every member, by its id."""


def frozen(shares: Mapping[Uuid, Iterable[int]]) -> Assignment:
    """An assignment out of collections of partitions, without topics that have none."""
    return {topic: frozenset(partitions) for topic, partitions in sorted(shares.items()) if partitions}

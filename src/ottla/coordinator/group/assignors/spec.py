"""The input and output of an assignor.

An assignor is a pure function of the group: the members with their subscriptions and their previous target
assignments, and the partition counts of the topics. Epochs, records and revocation are not its concern:
reconciliation moves members from their current to their target assignment.

An assignment maps a topic to partitions and does not contain topics without partitions. The result has an entry for
every member and assigns every partition of every subscribed topic to exactly one subscriber.

The racks of members are stored, but like those of Kafka 4.3 the assignors do not use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from ottla.base.ids import Uuid

Assignment = Mapping[Uuid, frozenset[int]]

NOTHING: Assignment = {}


class MemberSpec(NamedTuple):
    """One member: its id, its subscribed topics and its previous target assignment."""

    member_id: str
    topic_ids: frozenset[Uuid]
    assigned: Assignment = NOTHING
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group to assign. `partition_counts` contains exactly the topics to which a member subscribes."""

    members: list[MemberSpec]
    partition_counts: Mapping[Uuid, int]

    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len({member.topic_ids for member in self.members}) <= 1

    def topics(self) -> list[Uuid]:
        """The topics in the order in which all assignors process them."""
        return sorted(self.partition_counts)


class Assignor(Protocol):
    """An algorithm that assigns partitions to members."""

    @property
    def name(self) -> str: ...

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """The target of every member, by its id."""


def frozen(shares: Mapping[Uuid, Iterable[int]]) -> Assignment:
    """An assignment of these partitions, without empty topics."""
    return {topic: frozenset(partitions) for topic, partitions in sorted(shares.items()) if partitions}

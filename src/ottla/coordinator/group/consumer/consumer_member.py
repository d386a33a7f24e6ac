"""A member of a consumer group: its subscription, its assignment and its epochs. Immutable.

Invariant: `assigned` and `revoking` have no partition in common. Both map a topic to its partitions and each
partition to the epoch at which it was assigned to the member. With that epoch a late commit with an older member
epoch is distinguished from a commit of a fenced member.

A member without `classic` uses the consumer protocol; with it, the classic protocol (see `migration`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ottla.base.ids import Uuid
from ottla.coordinator.group.consumer.transitions import MemberState
from ottla.coordinator.group.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

JOINING = 0
"""The epoch of a member that (re)joins."""
LEAVING = -1
"""The epoch of a member that leaves permanently."""
LEAVING_TEMPORARILY = -2
"""The epoch of a static member that leaves and will return within its session timeout."""

Assigned = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic, each with the epoch at which it was assigned."""

NONE_ASSIGNED: Assigned = {}


class ConsumerMember(msgspec.Struct, frozen=True, gc=False):
    """One member."""

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: Assigned = NONE_ASSIGNED
    revoking: Assigned = NONE_ASSIGNED
    classic: ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout of a member of the classic protocol."""
        return -1 if self.classic is None else self.classic.session_timeout_ms

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assigned_at(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch at which the partition was assigned to the member; None if it is not assigned."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_subscription(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """The member with the subscription of a log record."""
        return msgspec.structs.replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """The member with the epochs and partitions of a log record."""
        return msgspec.structs.replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_from_log(value.assigned_partitions, value.member_epoch),
            revoking=_from_log(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_partitions(self) -> ConsumerMember:
        """The member after it has left and released all partitions."""
        return msgspec.structs.replace(
            self, epoch=LEAVING, previous_epoch=LEAVING, assigned=NONE_ASSIGNED, revoking=NONE_ASSIGNED
        )

    def left_temporarily(self) -> ConsumerMember:
        """The static member after it has left temporarily: it keeps its partitions, but its commits are refused.

        The epochs of its partitions are set to zero, so that its successor may commit at any epoch.
        """
        return msgspec.structs.replace(
            self,
            epoch=LEAVING_TEMPORARILY,
            assigned={topic: dict.fromkeys(owned, 0) for topic, owned in self.assigned.items()},
            revoking=NONE_ASSIGNED,
        )

    def replaced_by(self, member_id: str) -> ConsumerMember:
        """The static member with the member id of its successor."""
        return msgspec.structs.replace(self, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)

    def moved_to(
        self, state: MemberState, epoch: int, assigned: Assigned, revoking: Assigned = NONE_ASSIGNED
    ) -> ConsumerMember:
        """The member after a reconciliation step."""
        return msgspec.structs.replace(
            self, state=state, epoch=epoch, previous_epoch=self.epoch, assigned=assigned, revoking=revoking
        )


def _from_log(listed: Iterable[TopicPartitions], member_epoch: int) -> Assigned:
    """The partitions of a record. Records before Kafka 4.3 have no epochs: then the member's epoch is used."""
    owned: dict[Uuid, dict[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            owned[each.topic_id] = dict.fromkeys(each.partitions, member_epoch)
        else:
            owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned

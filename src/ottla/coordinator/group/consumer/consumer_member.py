"""A member of a consumer group: what it told, what it holds, how far it has come. Immutable.

Invariant: `assigned` and `revoking` share no partition. Both map a topic to its partitions and each partition to the
epoch at which the member got it; with that a late commit of an older epoch can be told from a zombie's.

A member without `classic` speaks the consumer protocol; with it, it still speaks the classic one (see migration).
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
"""The epoch of a member that leaves for good."""
LEAVING_TEMPORARILY = -2
"""The epoch of a static member that leaves but will be back within its session timeout."""

Assigned = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic, each with the epoch at which it was assigned."""

NONE_ASSIGNED: Assigned = {}


class ConsumerMember(msgspec.Struct, frozen=True, gc=False):
    """One member, at one moment."""

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
        """The session timeout that a member of the classic protocol asked for."""
        return -1 if self.classic is None else self.classic.session_timeout_ms

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assigned_at(self, topic_id: Uuid, partition: int) -> int | None:
        """Since which epoch the member holds the partition; None if it does not."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_subscription(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """The member with the subscription that the log tells."""
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
        """The member with the epochs and partitions that the log tells."""
        return msgspec.structs.replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_from_log(value.assigned_partitions, value.member_epoch),
            revoking=_from_log(value.partitions_pending_revocation, value.member_epoch),
        )

    def gone(self) -> ConsumerMember:
        """The member after it gave up everything."""
        return msgspec.structs.replace(
            self, epoch=LEAVING, previous_epoch=LEAVING, assigned=NONE_ASSIGNED, revoking=NONE_ASSIGNED
        )

    def away(self) -> ConsumerMember:
        """The static member while it is away: it keeps its partitions, but nothing it ever commits counts.

        The epochs of its partitions go to zero, so that whoever comes back under its name may commit at any epoch.
        """
        return msgspec.structs.replace(
            self,
            epoch=LEAVING_TEMPORARILY,
            assigned={topic: dict.fromkeys(held, 0) for topic, held in self.assigned.items()},
            revoking=NONE_ASSIGNED,
        )

    def replaced_by(self, member_id: str) -> ConsumerMember:
        """What the static member has, under the id of its successor."""
        return msgspec.structs.replace(self, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)

    def moved_to(
        self, state: MemberState, epoch: int, assigned: Assigned, revoking: Assigned = NONE_ASSIGNED
    ) -> ConsumerMember:
        """The member after a step of its reconciliation."""
        return msgspec.structs.replace(
            self, state=state, epoch=epoch, previous_epoch=self.epoch, assigned=assigned, revoking=revoking
        )


def _from_log(listed: Iterable[TopicPartitions], member_epoch: int) -> Assigned:
    """Partitions of a record; records older than Kafka 4.3 do not tell epochs: then the member's counts."""
    held: dict[Uuid, dict[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            held[each.topic_id] = dict.fromkeys(each.partitions, member_epoch)
        else:
            held[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return held

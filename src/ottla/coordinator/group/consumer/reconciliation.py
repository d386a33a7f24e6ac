"""Reconciliation: moves a member from its current assignment towards its target assignment.

Pure: takes a member and its target assignment and returns the member after one step. These rules ensure that a
partition belongs to one member at a time:
- a partition is assigned to a member only when it is free. A partition that a member has to revoke is not free until
  a heartbeat of that member no longer lists it as owned;
- a member revokes partitions before it gets new ones. Until then it stays at its epoch (UNREVOKED_PARTITIONS);
- then it moves to the epoch of the target with all partitions that are free. The others are assigned later at the
  same epoch (UNRELEASED_PARTITIONS), until none is missing (STABLE).

A member that changes its subscription loses the partitions of other topics at once, before there is a new target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.consumer.consumer_member import NONE_ASSIGNED, Assigned, ConsumerMember
from ottla.coordinator.group.consumer.transitions import MEMBER, MemberState

Owned = Mapping[Uuid, frozenset[int]]
"""The partitions that a member reports as owned."""


class ReconciliationInput(NamedTuple):
    """The target of a reconciliation step and the state it depends on."""

    target_epoch: int
    target: Assignment
    subscribed: frozenset[Uuid]
    """The topics of the member's current subscription."""
    is_free: Callable[[Uuid, int], bool]
    """Whether the partition belongs to no member."""
    owned: Owned | None
    """The partitions that the member reports as owned; None if the request does not list them."""
    subscription_changed: bool = False


def reconciled(member: ConsumerMember, given: ReconciliationInput) -> ConsumerMember:
    """The member after the next step; unchanged if it has to wait."""
    if not given.subscription_changed and member.is_reconciled_to(given.target_epoch):
        return member
    after = _step(member, given)
    if after is not member:
        MEMBER.check(member.state, after.state)
    return after


def _step(member: ConsumerMember, given: ReconciliationInput) -> ConsumerMember:
    if member.state is MemberState.STABLE and member.epoch == given.target_epoch:
        return _without_unsubscribed(member, given)
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(member.revoking, given):
        return _without_unsubscribed(member, given) if given.subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if given.owned is None or given.owned:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return _towards_target(member, given.target_epoch, given)
    return _towards_target(member, member.epoch, given)


def _still_owns(revoking: Assigned, given: ReconciliationInput) -> bool:
    """Whether the member may still own one of these partitions; assumed if it does not list what it owns."""
    if given.owned is None:
        return True
    return any(
        not partitions.isdisjoint(revoking[topic])
        for topic, partitions in given.owned.items()
        if topic in revoking
    )


def _without_unsubscribed(member: ConsumerMember, given: ReconciliationInput) -> ConsumerMember:
    """Revoke the topics to which the member no longer subscribes; the rest is unchanged."""
    lost = [topic for topic in member.assigned if topic not in given.subscribed]
    if not lost:
        return member
    assigned = {topic: owned for topic, owned in member.assigned.items() if topic in given.subscribed}
    revoking = {topic: dict(owned) for topic, owned in member.revoking.items()}
    for topic in lost:
        revoking.setdefault(topic, {}).update(member.assigned[topic])
    if _still_owns(revoking, given):
        return member.moved_to(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
    return member.moved_to(member.state, member.epoch, assigned, member.revoking)


def _towards_target(member: ConsumerMember, epoch: int, given: ReconciliationInput) -> ConsumerMember:
    assigned: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    assignable: list[tuple[Uuid, int]] = []
    is_waiting = False
    for topic in _in_order(given.target, member.assigned):
        wanted = given.target.get(topic, frozenset()) if topic in given.subscribed else frozenset()
        owned = member.assigned.get(topic, {})
        keeps = {partition: since for partition, since in owned.items() if partition in wanted}
        revokes = {partition: since for partition, since in owned.items() if partition not in wanted}
        if keeps:
            assigned[topic] = keeps
        if revokes:
            revoking[topic] = revokes
        own = member.revoking.get(topic, {})
        for partition in sorted(wanted.difference(owned)):
            # A partition that the member has just revoked can be assigned to it again: no other member has it.
            if partition in own or given.is_free(topic, partition):
                assignable.append((topic, partition))
            else:
                is_waiting = True
    if revoking and _still_owns(revoking, given):
        return member.moved_to(MemberState.UNREVOKED_PARTITIONS, epoch, assigned, revoking)
    for topic, partition in assignable:
        assigned.setdefault(topic, {})[partition] = given.target_epoch
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _unless_same(member, member.moved_to(state, given.target_epoch, assigned, NONE_ASSIGNED))


def _unless_same(before: ConsumerMember, after: ConsumerMember) -> ConsumerMember:
    return before if before == after else after


def _in_order(*parts: Iterable[Uuid]) -> list[Uuid]:
    return sorted({topic for part in parts for topic in part})

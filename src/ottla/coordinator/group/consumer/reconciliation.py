"""How a member gets from the partitions it holds to those it is meant to hold.

Pure: the member at one moment and its target in, the member after one step out. The rules that keep a partition with
one member at a time:
- a partition is given to a member only when nobody holds it. Whoever must give one up holds it, in the eyes of the
  group, until a heartbeat of that member no longer lists it among what it owns;
- a member first gives up, then gets: while it owes partitions it stays at its epoch (UNREVOKED_PARTITIONS);
- once it owes nothing it moves to the epoch of the target with all that is free; what others still hold comes later,
  at that same epoch (UNRELEASED_PARTITIONS), until nothing is missing (STABLE).

A member that changes what it reads loses the partitions of other topics at once, without waiting for a new target.
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
"""What a member says it owns."""


class ReconciliationInput(NamedTuple):
    """Where a member is to be led, and what is known on the way."""

    target_epoch: int
    target: Assignment
    subscribed: frozenset[Uuid]
    """Topics that the member reads now."""
    is_free: Callable[[Uuid, int], bool]
    """Whether no member holds the partition."""
    owned: Owned | None
    """What the member says it owns; None if it did not say."""
    subscription_changed: bool = False


def reconciled(member: ConsumerMember, aim: ReconciliationInput) -> ConsumerMember:
    """The member after the next step, or itself if it cannot go on yet."""
    if not aim.subscription_changed and member.is_reconciled_to(aim.target_epoch):
        return member
    after = _step(member, aim)
    if after is not member:
        MEMBER.check(member.state, after.state)
    return after


def _step(member: ConsumerMember, aim: ReconciliationInput) -> ConsumerMember:
    if member.state is MemberState.STABLE and member.epoch == aim.target_epoch:
        return _without_unsubscribed(member, aim)
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(member.revoking, aim):
        return _without_unsubscribed(member, aim) if aim.subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if aim.owned is None or aim.owned:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return _towards_target(member, aim.target_epoch, aim)
    return _towards_target(member, member.epoch, aim)


def _still_owns(revoking: Assigned, aim: ReconciliationInput) -> bool:
    """Whether the member may still use one of these; who does not say what it owns may."""
    if aim.owned is None:
        return True
    return any(
        not partitions.isdisjoint(revoking[topic])
        for topic, partitions in aim.owned.items()
        if topic in revoking
    )


def _without_unsubscribed(member: ConsumerMember, aim: ReconciliationInput) -> ConsumerMember:
    """Take away the topics that the member no longer reads; everything else stays as it is."""
    lost = [topic for topic in member.assigned if topic not in aim.subscribed]
    if not lost:
        return member
    assigned = {topic: held for topic, held in member.assigned.items() if topic in aim.subscribed}
    revoking = {topic: dict(held) for topic, held in member.revoking.items()}
    for topic in lost:
        revoking.setdefault(topic, {}).update(member.assigned[topic])
    if _still_owns(revoking, aim):
        return member.moved_to(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
    return member.moved_to(member.state, member.epoch, assigned, member.revoking)


def _towards_target(member: ConsumerMember, epoch: int, aim: ReconciliationInput) -> ConsumerMember:
    assigned: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    coming: list[tuple[Uuid, int]] = []
    waits = False
    for topic in _in_order(aim.target, member.assigned):
        wanted = aim.target.get(topic, frozenset()) if topic in aim.subscribed else frozenset()
        held = member.assigned.get(topic, {})
        keeps = {partition: since for partition, since in held.items() if partition in wanted}
        gives = {partition: since for partition, since in held.items() if partition not in wanted}
        if keeps:
            assigned[topic] = keeps
        if gives:
            revoking[topic] = gives
        own = member.revoking.get(topic, {})
        for partition in sorted(wanted.difference(held)):
            # What it has just given up may come back to it: nobody else can hold it.
            if partition in own or aim.is_free(topic, partition):
                coming.append((topic, partition))
            else:
                waits = True
    if revoking and _still_owns(revoking, aim):
        return member.moved_to(MemberState.UNREVOKED_PARTITIONS, epoch, assigned, revoking)
    for topic, partition in coming:
        assigned.setdefault(topic, {})[partition] = aim.target_epoch
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _unless_same(member, member.moved_to(state, aim.target_epoch, assigned, NONE_ASSIGNED))


def _unless_same(before: ConsumerMember, after: ConsumerMember) -> ConsumerMember:
    return before if before == after else after


def _in_order(*parts: Iterable[Uuid]) -> list[Uuid]:
    return sorted({topic for part in parts for topic in part})

"""Computes the target assignment of a group whose epoch is ahead of its target epoch.

There is a minimum interval between two computations (`consumer.assignment.interval.ms`, KIP-1263): when a hundred
members join within a second, the group is assigned twice and not a hundred times. Until then members reconcile to the
existing target.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors import ASSIGNORS
from ottla.coordinator.group.assignors.spec import NOTHING, Assignment, GroupSpec, MemberSpec
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.runtime.decision import LogRecord


class Target(NamedTuple):
    """The target assignment of one member and its epoch."""

    epoch: int
    assignment: Assignment


def current_target(group: ConsumerGroup, member: ConsumerMember) -> Target:
    """The existing target of the member."""
    return Target(group.target_epoch, group.target_of(member))


def next_target(
    context: GroupContext,
    group: ConsumerGroup,
    epoch: int,
    before: ConsumerMember,
    after: ConsumerMember,
    records: list[LogRecord],
) -> Target:
    """The target of a changed member at the group epoch `epoch`; computed for all members if it is due."""
    if not is_due(context, group, epoch):
        return current_target(group, after)
    spec = _spec(context, group, after)
    name = group.preferred_assignor(before, after) or context.settings.consumer_assignors[0]
    targets = ASSIGNORS[name].assign(spec)
    for member in spec.members:
        made = targets.get(member.member_id, NOTHING)
        if made != group.targets.get(member.member_id):
            records.append(consumer_records.target(group.group_id, member.member_id, made))
    records.append(consumer_records.target_epoch(group.group_id, epoch, context.clock.now_ms()))
    return Target(epoch, targets.get(after.member_id, NOTHING))


def is_due(context: GroupContext, group: ConsumerGroup, epoch: int) -> bool:
    """Whether the target of a group at `epoch` must be computed now."""
    if epoch <= group.target_epoch:
        return False
    interval_ms = context.consumer_settings(group.group_id).assignment_interval_ms
    if not group.target_timestamp_ms or not interval_ms:
        return True
    return context.clock.now_ms() >= group.target_timestamp_ms + interval_ms


def _spec(context: GroupContext, group: ConsumerGroup, changed: ConsumerMember) -> GroupSpec:
    """The input of the assignor with one member changed; a static member replaces its predecessor."""
    members = dict(group.members)
    predecessor = group.static_member(changed.instance_id)
    if predecessor is not None:
        members.pop(predecessor.member_id, None)
    members[changed.member_id] = changed
    # Members with equal subscriptions share one set of topic ids, to save memory.
    known: dict[tuple[frozenset[str], str | None], frozenset[Uuid]] = {}
    specs = []
    for member in members.values():
        key = (member.topics, member.topic_regex)
        if key not in known:
            known[key] = group.subscriptions.topic_ids(member, context.image)
        assigned = (
            group.target_of(member) if member is changed else group.targets.get(member.member_id, NOTHING)
        )
        specs.append(MemberSpec(member.member_id, known[key], assigned, member.instance_id))
    by_id = context.image.topics.by_id
    counts = {topic: len(by_id[topic].partitions) for topics in known.values() for topic in topics}
    return GroupSpec(specs, counts)

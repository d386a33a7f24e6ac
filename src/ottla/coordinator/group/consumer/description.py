"""The response of ConsumerGroupDescribe.

The assignment of a member contains all partitions that it may be consuming, including those that it has to revoke.
Deleted topics are omitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import NOTHING
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.metadata.image import MetadataImage
from ottla.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def describe_group(group: ConsumerGroup, image: MetadataImage, default_assignor: str) -> DescribedGroup:
    """Describe a group and its members."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> Member:
    owned = {
        topic: {**member.assigned.get(topic, {}), **member.revoking.get(topic, {})}
        for topic in (*member.assigned, *member.revoking)
    }
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(owned, image),
        target_assignment=_assignment(group.targets.get(member.member_id, NOTHING), image),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(owned: Mapping[Uuid, Collection[int]], image: MetadataImage) -> Assignment:
    by_id = image.topics.by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=by_id[topic].name, partitions=sorted(partitions))
            for topic, partitions in sorted(owned.items())
            if topic in by_id
        ]
    )

"""Validation of heartbeats: the fields of the request, and the member id, instance id and epoch of the sender.

The error texts are Kafka's, because users search for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import (
    JOINING,
    LEAVING,
    LEAVING_TEMPORARILY,
    ConsumerMember,
)
from ottla.coordinator.group.consumer.reconciliation import Owned
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_ID_CHOSEN_BY_CLIENT = 1
"""The first version of the request in which the client chooses its member id."""


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _refuse_blank(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for an invalid request."""
    epoch = request.member_epoch
    if api_version >= _ID_CHOSEN_BY_CLIENT or epoch > 0 or epoch == LEAVING:
        _refuse_blank(request.member_id, "MemberId")
    _refuse_blank(request.group_id, "GroupId")
    _refuse_blank(request.instance_id, "InstanceId")
    _refuse_blank(request.rack_id, "RackId")
    if epoch == JOINING:
        _check_joining(request)
    elif epoch == LEAVING_TEMPORARILY:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_TEMPORARILY:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, as when a member joins or after an error; so has the response."""
    return request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    """Refuse one more member than the group may have."""
    if len(group.members) >= size_max and member_id not in group.members:
        text = f"The consumer group has reached its maximum capacity of {size_max} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH if the epoch of the request is not the member's.

    The previous epoch is accepted if the response with the current one may have been lost: then the member owns
    only partitions that are assigned to it. A member that joins again with epoch 0 owns nothing.
    """
    if epoch in (JOINING, member.epoch):
        return
    greater = epoch > member.epoch
    if not greater and epoch == member.previous_epoch and _is_part_of(owned, member):
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if greater else 'smaller'} member epoch ({epoch}) than the "
        f"one known by the group coordinator ({member.epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _is_part_of(owned: Owned | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(
        topic in member.assigned and partitions <= member.assigned[topic].keys()
        for topic, partitions in owned.items()
    )


def check_released(member: ConsumerMember, member_id: str) -> None:
    """Raise UNRELEASED_INSTANCE_ID if the member with the instance id has not left."""
    if member.epoch != LEAVING_TEMPORARILY:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.instance_id} cannot join the group because the "
            f"instance id is owned by {member.member_id} member.",
        )


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with that instance id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for another member id."""
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    check_fenced(member, member_id)
    return member


def check_fenced(member: ConsumerMember, member_id: str) -> None:
    """Raise FENCED_INSTANCE_ID if another member has the instance id."""
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.instance_id} was fenced by member "
            f"{member.member_id}.",
        )

"""The consumer groups of one shard: requests and replay.

The table contains the groups that the log contains. A decision about a new group works on a temporary object; the
replay of its records creates the group in the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.errors import violated
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import LEAVING, LEAVING_TEMPORARILY
from ottla.coordinator.group.consumer.description import describe_group
from ottla.coordinator.group.consumer.heartbeat import ConsumerHeartbeat
from ottla.coordinator.group.consumer.member_removal import MemberRemoval
from ottla.coordinator.group.consumer.replay import check_deletable, replay_into
from ottla.coordinator.group.consumer.subscription.metadata_hash import MetadataHashes
from ottla.coordinator.group.consumer.subscription.regex_refresh import RegexRefresh
from ottla.coordinator.group.consumer.validation import check_request
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.migration.classic_members import ClassicMembers
from ottla.coordinator.group.records import ConsumerGroupMetadataKey
from ottla.coordinator.runtime.decision import Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message


class ConsumerGroups:
    """All consumer groups of a shard."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._hashes = MetadataHashes()
        self._regexes = RegexRefresh(context, self._hashes)
        self._removal = MemberRemoval(context, self._hashes)
        self._heartbeat = ConsumerHeartbeat(context, self._hashes, self._regexes, self._removal.sessions)
        self._classic = ClassicMembers(context, self._heartbeat, self._regexes, self._removal)

    # Requests

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, api_version: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat: a member joins, stays or leaves. Raises ApiError."""
        check_request(request, api_version, self._context.settings.consumer_assignors)
        if request.member_epoch in (LEAVING, LEAVING_TEMPORARILY):
            return self._removal.leave(request)
        return self._heartbeat.decide(request, client)

    def describe(self, group: ConsumerGroup) -> DescribedGroup:
        """ConsumerGroupDescribe."""
        return describe_group(group, self._context.image, self._context.settings.consumer_assignors[0])

    # Requests of the classic protocol

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: ClientInfo, api_version: int
    ) -> Decision[JoinGroupResponse]:
        return self._classic.join(group, request, client, api_version)

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        return self._classic.sync(group, request)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest
    ) -> Decision[HeartbeatResponse]:
        return self._classic.heartbeat(group, request)

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, api_version: int
    ) -> Decision[LeaveGroupResponse]:
        return self._classic.leave(group, request, api_version)

    # The log and the metadata

    def replay(self, key: Message, value: Message | None) -> None:
        """Apply a record of the log."""
        group_id: str = getattr(key, "group_id", "")
        group = self._context.groups.get(group_id)
        if value is None:
            if isinstance(group, ConsumerGroup):
                self._delete(group, key)
            return
        if not isinstance(group, ConsumerGroup):
            if group is not None and not group.is_empty():
                violated(
                    f"{group_id} is a classic group with members, but the log has a record of a consumer group"
                )
            group = self._context.groups[group_id] = ConsumerGroup(group_id)
        replay_into(group, key, value)

    def _delete(self, group: ConsumerGroup, key: Message) -> None:
        if isinstance(key, ConsumerGroupMetadataKey):
            check_deletable(group)
            del self._context.groups[group.group_id]
        else:
            replay_into(group, key, None)

    def on_loaded(self) -> None:
        """Start the timers of all members."""
        self._regexes.topics_version = self._context.image.offset
        for group in self._all():
            self._removal.sessions.resume(group)

    def on_unloaded(self) -> None:
        """Does nothing: no request waits in a consumer group."""

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Mark groups with changed topics; their next heartbeat computes the metadata hash again."""
        known = delta.base.topics.by_id
        if any(topic_id not in known for topic_id in delta.changed_topics):
            self._regexes.topics_version = image.offset
        names = {image.topics.by_id[topic_id].name for topic_id in delta.changed_topics}
        names |= {known[topic_id].name for topic_id in delta.deleted_topic_ids}
        if not names:
            return
        self._hashes.forget(names)
        for group in self._all():
            if group.subscriptions.has_any(names):
                group.metadata_stale = True

    def _all(self) -> Iterator[ConsumerGroup]:
        return (group for group in self._context.groups.values() if isinstance(group, ConsumerGroup))

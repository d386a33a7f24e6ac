"""The state machine of one partition of __consumer_offsets: its groups of all types, and their offsets.

This module only dispatches: records to the part that stores them, requests to the type of the group. A client of the
classic protocol may also send requests to a consumer group: a group with members accepts it as a member, an empty one
is replaced by a classic group.

Errors without a response of their own are raised as `ApiError`. Records of unknown types (share and streams groups
written by Apache Kafka) are not replayed; they stay in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.rng import Random
from ottla.coordinator.group import records as rec
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import ClassicGroups
from ottla.coordinator.group.cleanup import GroupCleanup
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_groups import ConsumerGroups
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.offset_manager import OffsetManager
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.coordinator.runtime.state_machine import Stamp
from ottla.coordinator.runtime.timers import Timers
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.wire.messages import consumer_group_describe, describe_groups
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_DEAD = "Dead"


class GroupStateMachine:
    """All groups of one shard. Implements `StateMachine`."""

    def __init__(self, settings: GroupSettings, timers: Timers, clock: Clock, rng: Random) -> None:
        self.context = GroupContext(settings, timers, clock, rng)
        self.classic = ClassicGroups(self.context)
        self.consumer = ConsumerGroups(self.context)
        self.offsets = OffsetManager(self.context, self.classic.ensure)
        self._cleanup = GroupCleanup(self.context, self.offsets)
        self._replay: Mapping[type, Callable[[Any, Any, Stamp], None]] = {
            rec.LegacyOffsetCommitKey: self._replay_legacy_offset,
            rec.OffsetCommitKey: self.offsets.replay,
            rec.GroupMetadataKey: lambda key, value, _: self.classic.replay(key, value),
        }

    # StateMachine

    def replay(self, record: LogRecord, stamp: Stamp) -> None:
        handler = self._replay.get(type(record.key))
        if handler is None:
            self.consumer.replay(record.key, record.value)
        else:
            handler(record.key, record.value, stamp)

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        self.offsets.store.end_transaction(producer_id, committed=committed)

    def on_loaded(self, image: MetadataImage) -> None:
        self.context.image = image
        self.classic.on_loaded()
        self.consumer.on_loaded()
        self._cleanup.begin()

    def on_unloaded(self) -> None:
        self.classic.on_unloaded()
        self.consumer.on_unloaded()

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.context.image = image
        self._cleanup.topics_changed(delta)
        self.consumer.on_metadata_changed(delta, image)

    def _replay_legacy_offset(
        self, key: rec.LegacyOffsetCommitKey, value: rec.LegacyOffsetCommitValue | None, stamp: Stamp
    ) -> None:
        """Replay a commit in the format of brokers before Kafka 0.9."""
        self.offsets.replay(
            rec.OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition),
            None
            if value is None
            else rec.OffsetCommitValue(
                offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            ),
            stamp,
        )

    # Requests of the classic protocol, to classic groups or consumer groups

    def join(
        self, request: JoinGroupRequest, client: ClientInfo, api_version: int
    ) -> Decision[JoinGroupResponse]:
        group = self.context.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.classic.join(request, client, api_version)
        if not group.is_empty():
            return self.consumer.join(group, request, client, api_version)
        decision = self.classic.join(request, client, api_version)
        if self.context.groups[request.group_id] is group:
            return decision
        on_complete = partial(self._replaced, group, decision.on_complete)
        return Decision(decision.response, group.tombstones() + decision.records, on_complete)

    def _replaced(
        self, group: ConsumerGroup, on_complete: Callable[[ErrorCode], None] | None, error: ErrorCode
    ) -> None:
        """A decision that replaces an empty consumer group is complete; if it was refused, the group stays."""
        if on_complete is not None:
            on_complete(error)
        if error is not ErrorCode.NONE:
            self.context.groups.setdefault(group.group_id, group)

    def sync(self, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty():
            return self.consumer.sync(group, request)
        return self.classic.sync(request)

    def heartbeat(self, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic_heartbeat(group, request)
        return self.classic.heartbeat(request)

    def leave(self, request: LeaveGroupRequest, api_version: int) -> Decision[LeaveGroupResponse]:
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.leave(group, request, api_version)
        return self.classic.leave(request, api_version)

    # Requests of the consumer protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, api_version: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        return self.consumer.heartbeat(request, client, api_version)

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int
    ) -> Decision[OffsetCommitResponse]:
        decision = self.offsets.commit(request, api_version)
        group = self.context.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            self.classic.keep_alive(group, request.member_id)
        return decision

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Decision[TxnOffsetCommitResponse]:
        return self.offsets.commit_transactional(request, api_version)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        return self.offsets.fetch(request, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        return self.offsets.delete(request)

    # Listing, describing and deleting groups

    def list_groups(self, request: ListGroupsRequest) -> list[ListedGroup]:
        """The groups in the given states and of the given types; an empty filter matches all."""
        states = {name.lower().strip() for name in request.states_filter}
        kinds = {name.lower() for name in request.types_filter}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.kind.value,
            )
            for group in self.context.groups.values()
            if (not states or group.state_name.lower() in states) and (not kinds or group.kind.value in kinds)
        ]

    def describe(self, group_id: str) -> describe_groups.DescribedGroup:
        """Describe a classic group. Any other group is Dead and has the error GROUP_ID_NOT_FOUND."""
        group = self.context.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.describe(group)
        return describe_groups.DescribedGroup(
            group_id=group_id,
            group_state=_DEAD,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=_missing(group_id, "classic", exists=group is not None),
        )

    def describe_consumer(self, group_id: str) -> consumer_group_describe.DescribedGroup:
        """Describe a consumer group."""
        group = self.context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.describe(group)
        return consumer_group_describe.DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=_missing(group_id, "consumer", exists=group is not None),
        )

    def delete_group(self, group_id: str) -> Decision[DeletableGroupResult]:
        """Delete a group without members, and its offsets."""
        group = self.context.groups.get(group_id)
        try:
            if group is None:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
            group.validate_delete()
        except ApiError as error:
            return Decision(DeletableGroupResult(group_id=group_id, error_code=error.code))
        records = self.offsets.tombstones(group_id) + group.tombstones()
        return Decision(DeletableGroupResult(group_id=group_id), records)


def _missing(group_id: str, kind: str, *, exists: bool) -> str:
    return f"Group {group_id} is not a {kind} group." if exists else f"Group {group_id} not found."

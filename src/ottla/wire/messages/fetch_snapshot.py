"""The FetchSnapshot request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Records, Spec


class SnapshotId(Message):
    end_offset: Annotated[int, F("int64", "0+")] = 0
    epoch: Annotated[int, F("int32", "0+")] = 0


class PartitionSnapshot(Message):
    partition: Annotated[int, F("int32", "0+")] = 0
    current_leader_epoch: Annotated[int, F("int32", "0+")] = 0
    snapshot_id: Annotated[SnapshotId, F("struct", "0+")] = field(default_factory=SnapshotId)
    position: Annotated[int, F("int64", "0+")] = 0
    replica_directory_id: Annotated[Uuid, F("uuid", "1+", tag=0, tagged="1+", ignorable=True)] = ZERO_UUID


class TopicSnapshot(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[PartitionSnapshot], F("[]struct", "0+")] = []


class FetchSnapshotRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=59, versions="0-1", flexible="0+")

    cluster_id: Annotated[str | None, F("string", "0+", nullable="0+", tag=0, tagged="0+")] = None
    replica_id: Annotated[int, F("int32", "0+")] = -1
    max_bytes: Annotated[int, F("int32", "0+")] = 2147483647
    topics: Annotated[list[TopicSnapshot], F("[]struct", "0+")] = []


class FetchSnapshotResponseSnapshotId(Message):
    end_offset: Annotated[int, F("int64", "0+")] = 0
    epoch: Annotated[int, F("int32", "0+")] = 0


class LeaderIdAndEpoch(Message):
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0


class FetchSnapshotResponsePartitionSnapshot(Message):
    index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    snapshot_id: Annotated[FetchSnapshotResponseSnapshotId, F("struct", "0+")] = field(
        default_factory=FetchSnapshotResponseSnapshotId
    )
    current_leader: Annotated[LeaderIdAndEpoch, F("struct", "0+", tag=0, tagged="0+")] = field(
        default_factory=LeaderIdAndEpoch
    )
    size: Annotated[int, F("int64", "0+")] = 0
    position: Annotated[int, F("int64", "0+")] = 0
    unaligned_records: Annotated[Records | None, F("records", "0+")] = None


class FetchSnapshotResponseTopicSnapshot(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[FetchSnapshotResponsePartitionSnapshot], F("[]struct", "0+")] = []


class NodeEndpoint(Message):
    node_id: Annotated[int, F("int32", "1+")] = 0
    host: Annotated[str, F("string", "1+")] = ""
    port: Annotated[int, F("uint16", "1+")] = 0


class FetchSnapshotResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=59, versions="0-1", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    topics: Annotated[list[FetchSnapshotResponseTopicSnapshot], F("[]struct", "0+")] = []
    node_endpoints: Annotated[list[NodeEndpoint], F("[]struct", "1+", tag=0, tagged="1+")] = []

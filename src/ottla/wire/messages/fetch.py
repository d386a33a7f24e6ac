"""The Fetch request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Records, Spec


class ReplicaState(Message):
    replica_id: Annotated[int, F("int32", "15+")] = -1
    replica_epoch: Annotated[int, F("int64", "15+")] = -1


class FetchPartition(Message):
    partition: Annotated[int, F("int32", "0+")] = 0
    current_leader_epoch: Annotated[int, F("int32", "9+", ignorable=True)] = -1
    fetch_offset: Annotated[int, F("int64", "0+")] = 0
    last_fetched_epoch: Annotated[int, F("int32", "12+")] = -1
    log_start_offset: Annotated[int, F("int64", "5+", ignorable=True)] = -1
    partition_max_bytes: Annotated[int, F("int32", "0+")] = 0
    replica_directory_id: Annotated[Uuid, F("uuid", "17+", tag=0, tagged="17+", ignorable=True)] = ZERO_UUID
    high_watermark: Annotated[int, F("int64", "18+", tag=1, tagged="18+", ignorable=True)] = (
        9223372036854775807
    )


class FetchTopic(Message):
    topic: Annotated[str, F("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[FetchPartition], F("[]struct", "0+")] = []


class ForgottenTopic(Message):
    topic: Annotated[str, F("string", "7-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[int], F("[]int32", "7+")] = []


class FetchRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=1, versions="4-18", flexible="12+")

    cluster_id: Annotated[
        str | None, F("string", "12+", nullable="12+", tag=0, tagged="12+", ignorable=True)
    ] = None
    replica_id: Annotated[int, F("int32", "0-14")] = -1
    replica_state: Annotated[ReplicaState, F("struct", "15+", tag=1, tagged="15+")] = field(
        default_factory=ReplicaState
    )
    max_wait_ms: Annotated[int, F("int32", "0+")] = 0
    min_bytes: Annotated[int, F("int32", "0+")] = 0
    max_bytes: Annotated[int, F("int32", "3+", ignorable=True)] = 2147483647
    isolation_level: Annotated[int, F("int8", "4+", ignorable=True)] = 0
    session_id: Annotated[int, F("int32", "7+", ignorable=True)] = 0
    session_epoch: Annotated[int, F("int32", "7+", ignorable=True)] = -1
    topics: Annotated[list[FetchTopic], F("[]struct", "0+")] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], F("[]struct", "7+")] = []
    rack_id: Annotated[str, F("string", "11+", ignorable=True)] = ""


class EpochEndOffset(Message):
    epoch: Annotated[int, F("int32", "12+")] = -1
    end_offset: Annotated[int, F("int64", "12+")] = -1


class LeaderIdAndEpoch(Message):
    leader_id: Annotated[int, F("int32", "12+")] = -1
    leader_epoch: Annotated[int, F("int32", "12+")] = -1


class SnapshotId(Message):
    end_offset: Annotated[int, F("int64", "0+")] = -1
    epoch: Annotated[int, F("int32", "0+")] = -1


class AbortedTransaction(Message):
    producer_id: Annotated[int, F("int64", "4+")] = 0
    first_offset: Annotated[int, F("int64", "4+")] = 0


class PartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    high_watermark: Annotated[int, F("int64", "0+")] = 0
    last_stable_offset: Annotated[int, F("int64", "4+", ignorable=True)] = -1
    log_start_offset: Annotated[int, F("int64", "5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, F("struct", "12+", tag=0, tagged="12+")] = field(
        default_factory=EpochEndOffset
    )
    current_leader: Annotated[LeaderIdAndEpoch, F("struct", "12+", tag=1, tagged="12+")] = field(
        default_factory=LeaderIdAndEpoch
    )
    snapshot_id: Annotated[SnapshotId, F("struct", "12+", tag=2, tagged="12+")] = field(
        default_factory=SnapshotId
    )
    aborted_transactions: Annotated[
        list[AbortedTransaction] | None, F("[]struct", "4+", nullable="4+", ignorable=True)
    ] = []
    preferred_read_replica: Annotated[int, F("int32", "11+")] = -1
    records: Annotated[Records | None, F("records", "0+", nullable="0+")] = None


class FetchableTopicResponse(Message):
    topic: Annotated[str, F("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[PartitionData], F("[]struct", "0+")] = []


class NodeEndpoint(Message):
    node_id: Annotated[int, F("int32", "16+")] = 0
    host: Annotated[str, F("string", "16+")] = ""
    port: Annotated[int, F("int32", "16+")] = 0
    rack: Annotated[str | None, F("string", "16+", nullable="16+")] = None


class FetchResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=1, versions="4-18", flexible="12+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "7+", ignorable=True)] = 0
    session_id: Annotated[int, F("int32", "7+")] = 0
    responses: Annotated[list[FetchableTopicResponse], F("[]struct", "0+")] = []
    node_endpoints: Annotated[list[NodeEndpoint], F("[]struct", "16+", tag=0, tagged="16+")] = []

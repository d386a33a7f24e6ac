"""Offsets of partitions and timestamps of single records, requested from the leaders.

Partitions that have no leader, or whose leader does not respond, are omitted from the results: the overview of a
cluster with a failed broker must not fail or wait.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ottla.admin.session import Session
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw import EARLIEST, LATEST, MAX_TIMESTAMP, ClientError
from ottla.client.raw.metadata import NO_LEADER
from ottla.records.batch import CorruptBatch
from ottla.records.columns import TIMESTAMP, decode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataResponse

__all__ = ["EARLIEST", "LATEST", "MAX_TIMESTAMP", "leaders_of", "list_offsets", "record_timestamps"]

Leaders = Mapping[TopicPartition, int]
_NO_REPLICA = -1
_FETCH_BY_NAME = 12
"""The newest version of Fetch with topic names."""
_SAMPLE_BYTES = 16 << 10
"""Enough for most batches; a longer first batch is fetched again alone."""
_OFFSET_MAX = (1 << 63) - 1


def leaders_of(response: MetadataResponse) -> dict[TopicPartition, int]:
    """The leaders of all partitions of a Metadata response that have one."""
    return {
        TopicPartition(topic.name or "", one.partition_index): one.leader_id
        for topic in response.topics
        for one in topic.partitions
        if one.leader_id != NO_LEADER
    }


def list_offsets(
    session: Session, wanted: Mapping[TopicPartition, int], leaders: Leaders, *, committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and timestamp of EARLIEST, LATEST, MAX_TIMESTAMP or the first record at or after a time (ms).

    The offset is -1 if no record is that recent. Partitions without a result are omitted.
    """
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = defaultdict(lambda: defaultdict(list))
    for tp, time in wanted.items():
        if tp in leaders:
            by_leader[leaders[tp]][tp.topic].append(
                ListOffsetsPartition(partition_index=tp.partition, timestamp=time)
            )
    requests = {
        node: ListOffsetsRequest(
            replica_id=_NO_REPLICA,
            isolation_level=int(committed),
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=session.timeout_ms,
        )
        for node, topics in by_leader.items()
    }
    responses, _ = session.broadcast(requests, ListOffsetsResponse)
    return {
        TopicPartition(topic.name, one.partition_index): (one.offset, one.timestamp)
        for response in responses.values()
        for topic in response.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.NONE
    }


def record_timestamps(
    session: Session, positions: Mapping[TopicPartition, int], leaders: Leaders
) -> dict[TopicPartition, int | None]:
    """The timestamps (ms) of the first records at or after these offsets; None if there is no such record.

    A partition is omitted if its record cannot be read. A position before the start of the log stands for the start.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for tp in positions:
        if tp in leaders:
            by_leader[leaders[tp]].append(tp)
    requests = {node: _sample(positions, theirs) for node, theirs in by_leader.items()}
    responses, _ = session.broadcast(requests, FetchResponse, newest=_FETCH_BY_NAME)
    found: dict[TopicPartition, int | None] = {}
    for topic in (topic for response in responses.values() for topic in response.responses):
        for one in topic.partitions:
            tp = TopicPartition(topic.topic, one.partition_index)
            with suppress(ClientError):
                stamp = _first_timestamp(one.records, positions[tp]) if not one.error_code else None
                found[tp] = _read_alone(session, tp, positions[tp]) if stamp is None else stamp
    return found


def _sample(positions: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(
            FetchPartition(
                partition=tp.partition, fetch_offset=positions[tp], partition_max_bytes=_SAMPLE_BYTES
            )
        )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
    )


def _read_alone(session: Session, tp: TopicPartition, offset: int) -> int | None:
    """As `record_timestamps`, with requests for this partition only: its first batch is returned whole."""
    start = session.cluster.list_offsets({tp: EARLIEST})[tp][0]
    end = session.cluster.list_offsets({tp: LATEST})[tp][0]
    offset = max(offset, start)
    stream = session.cluster.stream(tp, offset, end, max_bytes=1, max_wait_ms=0)
    stamps = (_first_timestamp(one.data, offset) for _, one in stream)
    return next((stamp for stamp in stamps if stamp is not None), None)


def _first_timestamp(data: bytes | bytearray | memoryview | None, offset: int) -> int | None:
    """The timestamp (ms) of the first record at or after an offset in fetched bytes."""
    if not data:
        return None
    try:
        rows = decode(data, start_offset=offset, end_offset=_OFFSET_MAX, wanted=(TIMESTAMP,), limit_rows=1)
    except CorruptBatch:
        return None
    if not rows.rows or rows.timestamp is None:
        return None
    stamps = array("q")
    stamps.frombytes(memoryview(rows.timestamp).cast("B")[:8])
    return stamps[0] // 1000

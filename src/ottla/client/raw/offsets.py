"""Offset requests: ListOffsets, and OffsetCommit and OffsetFetch of groups without members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    RetriableError,
    error_name,
    is_retriable,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Special timestamps of `list_offsets`."""
NO_OFFSET = -1
_NO_REPLICA = -1
_COMMIT_BY_NAME = 9
_FETCH_ONE_GROUP = 7
"""The newest versions with topic names, and with a single group."""
_GROUP = 0


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, tuple[int, int]]:
    """See `Cluster.list_offsets`."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    retry = cluster.retry(f"listing offsets of {len(wanted)} partitions")
    while len(found) < len(wanted):
        missing = {tp: time for tp, time in wanted.items() if tp not in found}
        problem: ClientError | None = None
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        try:
            for tp, time in missing.items():
                by_leader[cluster.leader(tp).leader][tp] = time
        except (ConnectionLost, RetriableError) as error:
            problem = error
        for node, theirs in by_leader.items():
            try:
                problem = _list_from(cluster, node, theirs, committed, found) or problem
            except ConnectionLost as error:
                problem = error
        if problem is not None:
            for topic in {tp.topic for tp in wanted if tp not in found}:
                cluster.forget_topic(topic)
            retry.backoff(problem)
    return found


def _list_from(
    cluster: Cluster,
    node: int,
    wanted: Mapping[TopicPartition, int],
    committed: bool,
    found: dict[TopicPartition, tuple[int, int]],
) -> ClientError | None:
    """Request offsets from one leader. Add them to `found`; return the error of a partition that must be retried."""
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for tp, time in wanted.items():
        epoch = cluster.leader(tp).leader_epoch
        topics[tp.topic].append(
            ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=epoch, timestamp=time)
        )
    request = ListOffsetsRequest(
        replica_id=_NO_REPLICA,
        isolation_level=int(committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=cluster.settings.request_timeout_ms,
    )
    response = cluster.connection(node).request(request, ListOffsetsResponse)
    problem: ClientError | None = None
    for topic in response.topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.name, one.partition_index)
            if one.error_code == ErrorCode.NONE:
                found[tp] = (one.offset, one.timestamp)
            elif is_retriable(one.error_code):
                problem = RetriableError(f"{tp}: {error_name(one.error_code)}")
            else:
                raise Refused(f"listing offsets of {tp}", one.error_code)
    return problem


def commit_offsets(cluster: Cluster, group: str, positions: Mapping[TopicPartition, int]) -> None:
    """See `Cluster.commit_offsets`."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for tp, offset in positions.items():
        topics[tp.topic].append(
            OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset)
        )
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    retry = cluster.retry(f"committing offsets of group {group}")
    while True:
        try:
            response = cluster.request_coordinator(
                _GROUP, group, request, OffsetCommitResponse, newest=_COMMIT_BY_NAME
            )
            for topic in response.topics:
                for one in topic.partitions:
                    _check(
                        cluster,
                        group,
                        one.error_code,
                        f"committing {topic.name}-{one.partition_index} of group {group}",
                    )
        except (ConnectionLost, RetriableError) as error:
            retry.backoff(error)
        else:
            return


def committed_offsets(
    cluster: Cluster, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """See `Cluster.committed_offsets`."""
    topics: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp.partition)
    request = OffsetFetchRequest(
        group_id=group,
        topics=[
            OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in topics.items()
        ],
    )
    retry = cluster.retry(f"fetching offsets of group {group}")
    while True:
        try:
            response = cluster.request_coordinator(
                _GROUP, group, request, OffsetFetchResponse, newest=_FETCH_ONE_GROUP
            )
            _check(cluster, group, response.error_code, f"fetching offsets of group {group}")
            found: dict[TopicPartition, int] = {}
            for topic in response.topics:
                for one in topic.partitions:
                    _check(
                        cluster,
                        group,
                        one.error_code,
                        f"fetching the offset of {topic.name}-{one.partition_index} of group {group}",
                    )
                    if one.committed_offset >= 0:
                        found[TopicPartition(topic.name, one.partition_index)] = one.committed_offset
        except (ConnectionLost, RetriableError) as error:
            retry.backoff(error)
        else:
            return found


def _check(cluster: Cluster, group: str, code: int, what: str) -> None:
    if code == ErrorCode.NONE:
        return
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        cluster.forget_coordinator(_GROUP, group)
    if is_retriable(code):
        raise RetriableError(f"{what}: {error_name(code)}")
    raise Refused(what, code)

"""Offsets: where partitions begin and end, which record came when, and what groups without members have kept."""

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
    TryAgain,
    code_name,
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
"""Stand-ins for a time in `list_offsets`."""
NO_OFFSET = -1
_NO_REPLICA = -1
_COMMIT_BY_NAME = 9
_FETCH_ONE_GROUP = 7
"""The newest versions that name topics, and that ask for one group."""
_GROUP = 0


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, tuple[int, int]]:
    """See `Cluster.list_offsets`."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    patience = cluster.patience(f"asking for offsets of {len(wanted)} partitions")
    while len(found) < len(wanted):
        missing = {tp: time for tp, time in wanted.items() if tp not in found}
        problem: ClientError | None = None
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        try:
            for tp, time in missing.items():
                by_leader[cluster.leader(tp).leader][tp] = time
        except (ConnectionLost, TryAgain) as error:
            problem = error
        for node, theirs in by_leader.items():
            try:
                problem = _list_from(cluster, node, theirs, committed, found) or problem
            except ConnectionLost as error:
                problem = error
        if problem is not None:
            for topic in {tp.topic for tp in wanted if tp not in found}:
                cluster.forget_topic(topic)
            patience.again(problem)
    return found


def _list_from(
    cluster: Cluster,
    node: int,
    wanted: Mapping[TopicPartition, int],
    committed: bool,
    found: dict[TopicPartition, tuple[int, int]],
) -> ClientError | None:
    """Ask one leader; adds what it knows, and returns why something is missing."""
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
    answer = cluster.connection(node).ask(request, ListOffsetsResponse)
    problem: ClientError | None = None
    for topic in answer.topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.name, one.partition_index)
            if one.error_code == ErrorCode.NONE:
                found[tp] = (one.offset, one.timestamp)
            elif is_retriable(one.error_code):
                problem = TryAgain(f"{tp}: {code_name(one.error_code)}")
            else:
                raise Refused(f"asking for offsets of {tp}", one.error_code)
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
    patience = cluster.patience(f"committing offsets of group {group}")
    while True:
        try:
            answer = cluster.ask_coordinator(
                _GROUP, group, request, OffsetCommitResponse, newest=_COMMIT_BY_NAME
            )
            for topic in answer.topics:
                for one in topic.partitions:
                    _check(
                        cluster,
                        group,
                        one.error_code,
                        f"committing {topic.name}-{one.partition_index} of group {group}",
                    )
        except (ConnectionLost, TryAgain) as error:
            patience.again(error)
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
    patience = cluster.patience(f"asking for offsets of group {group}")
    while True:
        try:
            answer = cluster.ask_coordinator(
                _GROUP, group, request, OffsetFetchResponse, newest=_FETCH_ONE_GROUP
            )
            _check(cluster, group, answer.error_code, f"asking for offsets of group {group}")
            found: dict[TopicPartition, int] = {}
            for topic in answer.topics:
                for one in topic.partitions:
                    _check(
                        cluster,
                        group,
                        one.error_code,
                        f"asking for {topic.name}-{one.partition_index} of group {group}",
                    )
                    if one.committed_offset >= 0:
                        found[TopicPartition(topic.name, one.partition_index)] = one.committed_offset
        except (ConnectionLost, TryAgain) as error:
            patience.again(error)
        else:
            return found


def _check(cluster: Cluster, group: str, code: int, what: str) -> None:
    if code == ErrorCode.NONE:
        return
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        cluster.forget_coordinator(_GROUP, group)
    if is_retriable(code):
        raise TryAgain(f"{what}: {code_name(code)}")
    raise Refused(what, code)

"""Decisions about elections: ElectLeaders, the return of preferred leaders, and periodic unclean elections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision, SplittableDecision, check_record_count
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.controller.partitions.partition_change import Election
from ottla.controller.partitions.replica_index import PartitionKey
from ottla.metadata.image import NO_LEADER, TopicImage
from ottla.metadata.records import PartitionChangeRecord
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.schema import Message

ELECTIONS_MAX: Final = 1000
"""The most elections of one periodic check. If there are more, the check continues at once."""

_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def decide_elect(view: ClusterView, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect the leaders of the named partitions, or of all partitions that need an election."""
    election = _TYPES.get(request.election_type)
    if election is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}")
    records: list[Message] = []
    if request.topic_partitions is None:
        named = [(topic.name, list(topic.partitions)) for topic in view.image.topics.by_id.values()]
    else:
        named = [(each.topic, each.partitions) for each in request.topic_partitions]
    results = []
    for name, indexes in named:
        topic = view.image.topics.by_name.get(name)
        found = [_elect(view, topic, index, election, records) for index in indexes]
        if request.topic_partitions is None:
            found = [each for each in found if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=name, partition_result=found))
    check_record_count(len(records))
    return SplittableDecision(records, ElectLeadersResponse(replica_election_results=results))


def _elect(
    view: ClusterView, topic: TopicImage | None, index: int, election: Election, records: list[Message]
) -> PartitionResult:
    if topic is None or index not in topic.partitions:
        return _result(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    partition = topic.partitions[index]
    if election is Election.PREFERRED:
        is_needed, failure = (
            partition.leader != partition.replicas[0],
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        )
    else:
        is_needed, failure = partition.leader == NO_LEADER, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not is_needed:
        return _result(index, ErrorCode.ELECTION_NOT_NEEDED, "the partition needs no election")
    record = _change(view, (topic.topic_id, index), election)
    if record is None:
        return _result(index, failure, "no replica can be elected")
    records.append(record)
    return _result(index, ErrorCode.NONE, None)


def _result(index: int, code: ErrorCode, message: str | None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _change(view: ClusterView, key: PartitionKey, election: Election) -> PartitionChangeRecord | None:
    topic, partition = view.partition(key)
    change = view.change(topic, partition)
    change.election = election
    return view.build(key, change)


def decide_balance(view: ClusterView) -> Decision[bool]:
    """Give partitions back to their preferred leaders. The response is True if there may be more to do."""
    return _elect_some(view, view.index.imbalanced, Election.PREFERRED)


def decide_unclean(view: ClusterView) -> Decision[bool]:
    """Elect leaders for partitions without one, where unclean elections are allowed."""
    allowed = [key for key in view.index.leaderless if view.allows_unclean_election(view.partition(key)[0])]
    return _elect_some(view, allowed, Election.UNCLEAN)


def _elect_some(view: ClusterView, keys: Iterable[PartitionKey], election: Election) -> Decision[bool]:
    records: list[Message] = []
    for key in keys:
        if len(records) >= ELECTIONS_MAX:
            return SplittableDecision(records, True)
        record = _change(view, key, election)
        if record is not None:
            records.append(record)
    return SplittableDecision(records, False)


def refuse_elect(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None = None
) -> ElectLeadersResponse:
    """The same error for the whole request and for every partition in it."""
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )

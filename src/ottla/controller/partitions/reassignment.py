"""Decisions about reassignments: AlterPartitionReassignments and ListPartitionReassignments.

A reassignment first adds the new replicas: `replicas` has the targets in their order, then those to be removed. When
every new replica is in the ISR, `PartitionChange` completes it in the same record as the change of the ISR. Cancelling
removes the added replicas and keeps the order of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision, check_record_count
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.controller.partitions.partition_change import Election, PartitionChange
from ottla.metadata import placement
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.metadata.records import PartitionChangeRecord
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.schema import Message


def decide_reassign(
    view: ClusterView, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Start, change or cancel the reassignment of each partition; invalid ones get an error in the response."""
    records: list[Message] = []
    responses = []
    for topic_data in request.topics:
        results = []
        for target in topic_data.partitions:
            code, message = ErrorCode.NONE, None
            try:
                record = _alter(view, topic_data.name, target, request.allow_replication_factor_change)
            except ApiError as error:
                code, message = error.code, error.message
            else:
                records += [] if record is None else [record]
            results.append(
                ReassignablePartitionResponse(
                    partition_index=target.partition_index, error_code=code, error_message=message
                )
            )
        responses.append(ReassignableTopicResponse(name=topic_data.name, partitions=results))
    check_record_count(len(records))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        error_message=None if request.topics else "",
        responses=responses,
    )
    return Decision(records, response)


def _alter(
    view: ClusterView, name: str, target: ReassignablePartition, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = view.image.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    partition = topic.partitions.get(target.partition_index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {target.partition_index} does not exist"
        )
    key = (topic.topic_id, target.partition_index)
    if target.replicas is None:
        return view.build(key, _cancelled(view, topic, partition))
    placement.check_assignment(view.image, target.replicas, None)
    if not may_change_factor:
        _check_factor(partition, target.replicas)
    change = view.change(topic, partition)
    change.election = Election.ONLINE
    removing = sorted(set(partition.replicas) - set(target.replicas))
    adding = sorted(set(target.replicas) - set(partition.replicas))
    change.replicas = (*target.replicas, *removing)
    if removing:
        change.removing = tuple(removing)
        # A replica that an earlier reassignment was adding and this one removes would never be in sync.
        change.adding = tuple(one for one in change.adding if one not in removing)
    if adding:
        change.adding = tuple(adding)
    return view.build(key, change)


def _cancelled(view: ClusterView, topic: TopicImage, partition: PartitionImage) -> PartitionChange:
    if not is_reassigning(partition):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    change = view.change(topic, partition)
    change.replicas = tuple(one for one in partition.replicas if one not in partition.adding_replicas)
    change.isr = tuple(one for one in partition.isr if one not in partition.adding_replicas)
    change.removing = change.adding = ()
    if not change.replicas:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all replicas of the partition are being added")
    if not change.isr:
        if not view.allows_unclean_election(topic):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "cancelling would require an unclean leader election"
            )
        if not view.image.elr_enabled:  # an empty ISR cannot be stored
            change.isr = change.replicas[:1]
    return change


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether a reassignment of the partition is in progress."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _check_factor(partition: PartitionImage, target: Sequence[int]) -> None:
    current = {*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas)
    if len(current) != len(target):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(current)} to {len(target)}",
        )


def list_reassignments(
    view: ClusterView, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments in progress of the named partitions, or of all."""
    if request.topics is None:
        wanted: dict[str, list[int]] = {}
        for topic_id, index in view.index.reassigning:
            wanted.setdefault(view.image.topics.by_id[topic_id].name, []).append(index)
    else:
        wanted = {each.name: each.partition_indexes for each in request.topics}
    topics = []
    for name, indexes in wanted.items():
        topic = view.image.topics.by_name.get(name)
        found = [] if topic is None else [(index, topic.partitions.get(index)) for index in indexes]
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(each.replicas),
                adding_replicas=list(each.adding_replicas),
                removing_replicas=list(each.removing_replicas),
            )
            for index, each in found
            if each is not None and is_reassigning(each)
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def refuse_reassign(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None = None
) -> AlterPartitionReassignmentsResponse:
    """The same error for the whole request and for every partition in it."""
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message=message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )

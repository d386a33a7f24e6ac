"""Error responses to forwarded requests that no controller has handled; the fields are those of Kafka."""

from __future__ import annotations

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.controller import configs, features, topics
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest
from ottla.wire.schema import Message


def refuse(request: Message, code: ErrorCode, message: str | None, api_version: int) -> Message:
    """The response with the same error for everything in a request."""
    match request:
        case CreateTopicsRequest():
            return topics.refuse_create(request, code, message)
        case DeleteTopicsRequest():
            return topics.refuse_delete(request, code, message)
        case CreatePartitionsRequest():
            return topics.refuse_create_partitions(request, code, message)
        case AlterConfigsRequest():
            return configs.refuse_alter(request, code, message)
        case IncrementalAlterConfigsRequest():
            return configs.refuse_incremental_alter(request, code, message)
        case UpdateFeaturesRequest():
            return features.refuse_update(code, message)
        case ElectLeadersRequest():
            return _refuse_elections(request, code, message, api_version)
        case AlterPartitionReassignmentsRequest():
            return _refuse_reassignments(request, code, message)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
        case UnregisterBrokerRequest():
            return UnregisterBrokerResponse(error_code=code, error_message=message)
        case DescribeQuorumRequest():
            return DescribeQuorumResponse(
                error_code=code, error_message=message if api_version >= _FIRST_QUORUM_MESSAGE else ""
            )
        case _:
            raise InvariantViolation(f"{type(request).__name__} is not forwarded")


_FIRST_QUORUM_MESSAGE = 2
_FIRST_ELECTION_ERROR = 1


def _refuse_elections(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None, api_version: int
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code if api_version >= _FIRST_ELECTION_ERROR else ErrorCode.NONE,
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


def _refuse_reassignments(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
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

"""Error responses to forwarded requests that no controller has handled; the fields are those of Kafka."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.controller import configs, elections, features, reassignment, topics
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest
from ottla.wire.schema import Message

_FIRST_QUORUM_MESSAGE: Final = 2
_FIRST_ELECTION_ERROR: Final = 1


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
            return reassignment.refuse_reassign(request, code, message)
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


def _refuse_elections(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None, api_version: int
) -> ElectLeadersResponse:
    response = elections.refuse_elect(request, code, message)
    if api_version < _FIRST_ELECTION_ERROR:
        response.error_code = ErrorCode.NONE
    return response

"""Error responses to requests that no handler has got; the error is in the fields in which Kafka reports it.

They are forwarded requests that no controller has handled, and requests of clients that lack a right on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.controller.partitions import elections, reassignment, topics
from ottla.controller.security import acls, scram_users, tokens
from ottla.controller.settings import client_quotas, configs
from ottla.security.principal import ANONYMOUS
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.messages.create_acls import CreateAclsRequest
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import Message

_FIRST_QUORUM_MESSAGE: Final = 2
_FIRST_ELECTION_ERROR: Final = 1
_FIRST_FETCH_ERROR: Final = 13

_Refusal = Callable[[Any, ErrorCode, str | None, int], Message]


def refuse(request: Message, code: ErrorCode, message: str | None, api_version: int) -> Message:
    """The response with the same error for everything in a request."""
    refusal = _REFUSALS.get(type(request))
    if refusal is None:
        raise InvariantViolation(f"{type(request).__name__} has no error response for the whole request")
    return refusal(request, code, message, api_version)


def _refuse_elections(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None, api_version: int
) -> ElectLeadersResponse:
    response = elections.refuse_elect(request, code, message)
    if api_version < _FIRST_ELECTION_ERROR:
        response.error_code = ErrorCode.NONE
    return response


def _refuse_quorum(_: Message, code: ErrorCode, message: str | None, api_version: int) -> Message:
    text = message or code.name if api_version >= _FIRST_QUORUM_MESSAGE else ""
    return DescribeQuorumResponse(error_code=code, error_message=text)


def _refuse_fetch(request: FetchRequest, code: ErrorCode, _: str | None, api_version: int) -> FetchResponse:
    topics = request.topics if api_version < _FIRST_FETCH_ERROR else []
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1)
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


def _refuse_list_reassignments(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def _refuse_markers(
    request: WriteTxnMarkersRequest, code: ErrorCode, _: str | None
) -> WriteTxnMarkersResponse:
    """One result for each producer, of its last marker; partitions are listed once."""
    by_producer: dict[int, dict[str, dict[int, None]]] = {}
    for marker in request.markers:
        partitions: dict[str, dict[int, None]] = {}
        for topic in marker.topics:
            if topic.partition_indexes:
                partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        by_producer[marker.producer_id] = partitions
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in indexes
                        ],
                    )
                    for name, indexes in partitions.items()
                ],
            )
            for producer_id, partitions in by_producer.items()
        ]
    )


def _refuse_moves(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, _: str | None
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _refuse_quotas(_: Message, code: ErrorCode, __: str | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None)


def _refuse_scram_users(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, _: str | None
) -> DescribeUserScramCredentialsResponse:
    """The results have the error of the response, and no names."""
    refused = DescribeUserScramCredentialsResult(error_code=code, error_message=None)
    results = [refused] * len(request.users or ())
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


def _by_parts(refusal: Callable[[Any, ErrorCode, str | None], Message]) -> _Refusal:
    """A response with an error for each part of the request."""
    return lambda request, code, message, _: refusal(request, code, message)


def _whole(response: Callable[..., Message]) -> _Refusal:
    """A response with one error and its message."""
    return lambda _, code, message, __: response(error_code=code, error_message=message)


def _code(response: Callable[..., Message]) -> _Refusal:
    """A response with one error without a message."""
    return lambda _, code, __, ___: response(error_code=code)


def _refuse_token(_: Message, code: ErrorCode, __: str | None, api_version: int) -> Message:
    return tokens.in_version(tokens.creation_response(ANONYMOUS, ANONYMOUS, code, -1), api_version)


_REFUSALS: Final[Mapping[type[Message], _Refusal]] = {
    AddRaftVoterRequest: _whole(AddRaftVoterResponse),
    AllocateProducerIdsRequest: _code(AllocateProducerIdsResponse),
    AlterClientQuotasRequest: _by_parts(client_quotas.refuse_alter),
    AlterConfigsRequest: _by_parts(configs.refuse_alter),
    AlterPartitionReassignmentsRequest: _by_parts(reassignment.refuse_reassign),
    AlterPartitionRequest: _code(AlterPartitionResponse),
    AlterReplicaLogDirsRequest: _by_parts(_refuse_moves),
    AlterUserScramCredentialsRequest: _by_parts(scram_users.refuse_alter),
    AssignReplicasToDirsRequest: _code(AssignReplicasToDirsResponse),
    BeginQuorumEpochRequest: _code(BeginQuorumEpochResponse),
    BrokerHeartbeatRequest: _code(BrokerHeartbeatResponse),
    BrokerRegistrationRequest: _code(BrokerRegistrationResponse),
    ControllerRegistrationRequest: _whole(ControllerRegistrationResponse),
    CreateAclsRequest: _by_parts(acls.refuse_create),
    CreateDelegationTokenRequest: _refuse_token,
    CreatePartitionsRequest: _by_parts(topics.refuse_create_partitions),
    CreateTopicsRequest: _by_parts(topics.refuse_create),
    DeleteAclsRequest: _by_parts(acls.refuse_delete),
    DeleteTopicsRequest: _by_parts(topics.refuse_delete),
    DescribeClientQuotasRequest: _by_parts(_refuse_quotas),
    DescribeClusterRequest: _whole(DescribeClusterResponse),
    DescribeLogDirsRequest: _code(DescribeLogDirsResponse),
    DescribeAclsRequest: _whole(DescribeAclsResponse),
    DescribeQuorumRequest: _refuse_quorum,
    DescribeUserScramCredentialsRequest: _by_parts(_refuse_scram_users),
    ElectLeadersRequest: _refuse_elections,
    ExpireDelegationTokenRequest: _code(ExpireDelegationTokenResponse),
    EndQuorumEpochRequest: _code(EndQuorumEpochResponse),
    EnvelopeRequest: _code(EnvelopeResponse),
    FetchRequest: _refuse_fetch,
    FetchSnapshotRequest: _code(FetchSnapshotResponse),
    IncrementalAlterConfigsRequest: _by_parts(configs.refuse_incremental_alter),
    ListConfigResourcesRequest: _code(ListConfigResourcesResponse),
    ListPartitionReassignmentsRequest: _by_parts(_refuse_list_reassignments),
    RenewDelegationTokenRequest: _code(RenewDelegationTokenResponse),
    RemoveRaftVoterRequest: _whole(RemoveRaftVoterResponse),
    UnregisterBrokerRequest: _whole(UnregisterBrokerResponse),
    UpdateFeaturesRequest: _whole(UpdateFeaturesResponse),
    UpdateRaftVoterRequest: _code(UpdateRaftVoterResponse),
    VoteRequest: _code(VoteResponse),
    WriteTxnMarkersRequest: _by_parts(_refuse_markers),
}

"""The controller as the rest of a node uses it: the port `ControllerPort`.

Request handlers, registration, unfencing, producer id allocation and directory reports use this interface and
nothing else of the controller. In-process it is `ControllerDriver`; on a node that is not the active
controller an implementation forwards each call over the network. Therefore arguments and results are wire
messages, and every method is asynchronous.

A method returns after the records of its decision are committed and after this node has applied them, so a
client that reads the response can use what it created. Errors are inside the response: NOT_CONTROLLER where this node
is not the active controller.
"""

from __future__ import annotations

from typing import Protocol

from ottla.controller.decision import Charge, uncharged
from ottla.security.principal import Principal
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


class ControllerPort(Protocol):
    """Asynchronous requests to the active controller of the cluster."""

    # Requests of clients

    async def create_topics(
        self, request: CreateTopicsRequest, charge: Charge = uncharged
    ) -> CreateTopicsResponse: ...

    async def delete_topics(
        self, request: DeleteTopicsRequest, api_version: int, charge: Charge = uncharged
    ) -> DeleteTopicsResponse: ...

    async def create_partitions(
        self, request: CreatePartitionsRequest, charge: Charge = uncharged
    ) -> CreatePartitionsResponse: ...

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse: ...

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse: ...

    async def update_features(
        self, request: UpdateFeaturesRequest, api_version: int
    ) -> UpdateFeaturesResponse: ...

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse: ...

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse: ...

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse: ...

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse: ...

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse: ...

    async def add_raft_voter(self, request: AddRaftVoterRequest, cluster_id: str) -> AddRaftVoterResponse: ...

    async def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, cluster_id: str
    ) -> RemoveRaftVoterResponse: ...

    async def update_raft_voter(
        self, request: UpdateRaftVoterRequest, cluster_id: str, listener: str
    ) -> UpdateRaftVoterResponse: ...

    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse: ...

    async def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse: ...

    async def create_acls(self, request: CreateAclsRequest) -> CreateAclsResponse: ...

    async def delete_acls(self, request: DeleteAclsRequest) -> DeleteAclsResponse: ...

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, principal: Principal
    ) -> CreateDelegationTokenResponse: ...

    async def renew_delegation_token(
        self, request: RenewDelegationTokenRequest, principal: Principal
    ) -> RenewDelegationTokenResponse: ...

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, principal: Principal
    ) -> ExpireDelegationTokenResponse: ...

    # Requests of brokers

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse: ...

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse: ...

    async def alter_partition(
        self, request: AlterPartitionRequest, api_version: int
    ) -> AlterPartitionResponse: ...

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse: ...

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse: ...

    async def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerRegistrationResponse: ...

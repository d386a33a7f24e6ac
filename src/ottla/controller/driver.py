"""The controller port, served in this process: each request becomes one decision of the local controller.

Concurrency: the event loop. A coroutine that is cancelled changes nothing: its decision is made and committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import producer_ids, voters
from ottla.controller.brokers import heartbeats, registration
from ottla.controller.brokers.confirmation import Confirmation
from ottla.controller.brokers.liveness import BrokerWatch
from ottla.controller.controller import Controller
from ottla.controller.decision import Charge, Decision, uncharged
from ottla.controller.partitions import directories, elections, reassignment, topics
from ottla.controller.partitions.alter_partition import decide_alter_partition
from ottla.controller.quorum_status import describe_quorum
from ottla.controller.runtime import ControllerRuntime, Decide
from ottla.controller.security import acls, scram_users, tokens
from ottla.controller.settings import client_quotas, configs, features
from ottla.controller.tasks import ControllerTasks
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.records import NoOpRecord
from ottla.quorum.quorum import Quorum
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
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
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
from ottla.wire.schema import Message

R = TypeVar("R")

ErrorResponse = Callable[[ErrorCode, str | None], R]


class ControllerDriver:
    """`ControllerPort` over one quorum replica."""

    def __init__(
        self,
        controller: Controller,
        quorum: Quorum,
        publisher: MetadataPublisher,
        *,
        bootstrap: Sequence[Message],
        on_fault: Callable[[BaseException], None],
        clock: Clock,
        cluster_id: str = registration.ANY_CLUSTER,
    ) -> None:
        self._cluster_id = cluster_id
        self._controller = controller
        self._clock = clock
        self._tasks = ControllerTasks(controller, asyncio.get_running_loop, clock.now_ms)
        self._quorum = quorum
        self._publisher = publisher
        self._on_fault = on_fault
        self._started: asyncio.Future[None] | None = None
        self._confirmation = Confirmation(
            controller.config.int("metadata.max.idle.interval.ms") / 1000,
            controller.config.int("controller.quorum.fetch.timeout.ms") / 1000,
        )
        self._runtime = ControllerRuntime(
            controller,
            quorum,
            publisher,
            bootstrap=bootstrap,
            on_leading=self._leading,
            on_resigned=self._tasks.stop,
            on_active=self._active,
            on_fault=self._failed,
        )

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._runtime.is_active

    @property
    def applied_offset(self) -> int:
        """The offset of the committed image. After a response it includes everything the decision was based on."""
        return self._publisher.image.offset

    async def start(self) -> None:
        """Start the quorum; return when this node leads it and has applied its first records."""
        self._started = asyncio.get_running_loop().create_future()
        self._quorum.start(self._publisher, self._runtime)
        await self._started

    def join(self) -> None:
        """Start the quorum without waiting; this node becomes active whenever it is elected."""
        self._quorum.start(self._publisher, self._runtime)

    def _leading(self) -> None:
        elapsed = self._confirmation.start(
            self._quorum.silence_ms / 1000, has_other_voters=len(self._quorum.describe().voters) > 1
        )
        self._tasks.start(self._runtime.submit, elapsed)

    def _active(self) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    def _failed(self, error: BaseException) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_exception(error)
        else:
            self._on_fault(error)

    # Requests of brokers

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        return await self._submit(
            lambda _: self._register(request),
            lambda code, _: BrokerRegistrationResponse(error_code=code),
        )

    def _register(self, request: BrokerRegistrationRequest) -> Decision[BrokerRegistrationResponse]:
        return registration.decide_register_broker(
            self._controller.view(),
            self._controller.sessions,
            request,
            cluster_id=self._cluster_id,
            now=self._now(),
            next_offset=self._quorum.log_end_offset,
            kraft_version=self._quorum.kraft_version,
        )

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        return await self._submit(
            lambda _: self._heartbeat(request),
            lambda code, _: BrokerHeartbeatResponse(error_code=code),
        )

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> Decision[BrokerHeartbeatResponse]:
        now = self._now()
        decision = heartbeats.decide_heartbeat(
            self._controller.view(),
            self._controller.sessions,
            request,
            now=now,
            next_offset=self._quorum.log_end_offset,
        )
        if not decision.records and self._confirmation.needs_record(now):
            return Decision([NoOpRecord()], decision.response)
        return decision

    async def alter_partition(
        self, request: AlterPartitionRequest, api_version: int
    ) -> AlterPartitionResponse:
        if not request.topics:
            return AlterPartitionResponse()
        return await self._submit(
            lambda _: decide_alter_partition(self._controller.view(), request, api_version),
            lambda code, _: AlterPartitionResponse(error_code=code),
        )

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._submit(
            lambda _: producer_ids.decide_allocate(self._controller.view(), request),
            lambda code, _: AllocateProducerIdsResponse(error_code=code),
        )

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        return await self._submit(
            lambda _: directories.decide_assign(self._controller.view(), request),
            lambda code, _: AssignReplicasToDirsResponse(error_code=code),
        )

    async def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerRegistrationResponse:
        return await self._submit(
            lambda image: registration.decide_register_controller(image, request),
            lambda code, message: ControllerRegistrationResponse(error_code=code, error_message=message),
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # Evidence about brokers

    def watch_brokers(self, watch: BrokerWatch) -> None:
        """Watch the registered brokers while this node is the active controller."""
        self._tasks.liveness.attach(watch)

    def broker_lost(self, broker_id: int) -> None:
        """There is evidence that a watched broker has ended; called by the watch."""
        self._tasks.liveness.broker_lost(broker_id)

    # Requests of clients

    async def create_topics(
        self, request: CreateTopicsRequest, charge: Charge = uncharged
    ) -> CreateTopicsResponse:
        return await self._submit(
            lambda image: self._controller.topics.decide_create(
                image,
                request,
                led=self._controller.index.preferred_leaders(),
                charge=charge,
            ),
            lambda code, message: topics.refuse_create(request, code, message),
            timeout_ms=request.timeout_ms if topics.has_valid_names(request.topics) else None,
        )

    async def delete_topics(
        self, request: DeleteTopicsRequest, api_version: int, charge: Charge = uncharged
    ) -> DeleteTopicsResponse:
        return await self._submit(
            lambda image: self._controller.topics.decide_delete(image, request, api_version, charge),
            lambda code, message: topics.refuse_delete(request, code, message),
            timeout_ms=request.timeout_ms if any(topics.valid_deletions(request)) else None,
        )

    async def create_partitions(
        self, request: CreatePartitionsRequest, charge: Charge = uncharged
    ) -> CreatePartitionsResponse:
        return await self._submit(
            lambda image: self._controller.topics.decide_create_partitions(image, request, charge),
            lambda code, message: topics.refuse_create_partitions(request, code, message),
            timeout_ms=request.timeout_ms if topics.has_valid_names(request.topics) else None,
        )

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._submit(
            lambda image: self._controller.configs.decide_alter(image, request),
            lambda code, message: configs.refuse_alter(request, code, message),
        )

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        return await self._submit(
            lambda image: self._controller.configs.decide_incremental_alter(image, request),
            lambda code, message: configs.refuse_incremental_alter(request, code, message),
        )

    async def update_features(
        self, request: UpdateFeaturesRequest, api_version: int
    ) -> UpdateFeaturesResponse:
        kraft_version = self._quorum.kraft_version
        return await self._submit(
            lambda image: features.decide_update(
                image,
                request,
                api_version,
                kraft_version=kraft_version,
                min_insync_replicas=str(self._controller.config.int("min.insync.replicas")),
            ),
            features.refuse_update,
        )

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        return describe_quorum(request, self._quorum.describe(), self._controller.node_id)

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        return await self._submit(
            lambda _: elections.decide_elect(self._controller.view(), request),
            lambda code, message: elections.refuse_elect(request, code, message),
            timeout_ms=request.timeout_ms,
        )

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        return await self._submit(
            lambda _: reassignment.decide_reassign(self._controller.view(), request),
            lambda code, message: reassignment.refuse_reassign(request, code, message),
            timeout_ms=request.timeout_ms if request.topics else None,
        )

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return await self._submit(
            lambda _: Decision([], reassignment.list_reassignments(self._controller.view(), request)),
            lambda code, message: ListPartitionReassignmentsResponse(error_code=code, error_message=message),
        )

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        return await self._submit(
            lambda _: registration.decide_unregister(
                self._controller.view(), self._controller.sessions, request
            ),
            lambda code, message: UnregisterBrokerResponse(error_code=code, error_message=message),
        )

    # Voters

    async def add_raft_voter(self, request: AddRaftVoterRequest, cluster_id: str) -> AddRaftVoterResponse:
        return await voters.add_voter(self._members(cluster_id), self._quorum, request)

    async def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, cluster_id: str
    ) -> RemoveRaftVoterResponse:
        return await voters.remove_voter(self._members(cluster_id), self._quorum, request)

    async def update_raft_voter(
        self, request: UpdateRaftVoterRequest, cluster_id: str, listener: str
    ) -> UpdateRaftVoterResponse:
        return await voters.update_voter(self._members(cluster_id), self._quorum, request, listener)

    def _members(self, cluster_id: str) -> voters.QuorumMembers:
        quorum, controller = self._quorum, self._controller
        listener = controller.config.list("controller.listener.names")[0]
        return voters.QuorumMembers(
            cluster_id, controller.node_id, listener, quorum.kraft_version, quorum.describe()
        )

    # Users and quotas

    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        return await self._submit(
            lambda image: scram_users.decide_alter(image, request),
            lambda code, message: scram_users.refuse_alter(request, code, message),
        )

    async def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        return await self._submit(
            lambda image: client_quotas.decide_alter(image, request),
            lambda code, message: client_quotas.refuse_alter(request, code, message),
        )

    async def create_acls(self, request: CreateAclsRequest) -> CreateAclsResponse:
        controller = self._controller
        return await self._submit(
            lambda image: acls.decide_create(image, controller.acls, request, controller.rng),
            lambda code, message: acls.refuse_create(request, code, message),
        )

    async def delete_acls(self, request: DeleteAclsRequest) -> DeleteAclsResponse:
        return await self._submit(
            lambda image: acls.decide_delete(image, request),
            lambda code, message: acls.refuse_delete(request, code, message),
        )

    # Delegation tokens

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, principal: Principal
    ) -> CreateDelegationTokenResponse:
        return await self._submit(
            lambda image: self._controller.tokens.decide_create(
                image, request, principal, self._clock.now_ms()
            ),
            lambda code, _: tokens.creation_response(tokens.owner_of(request, principal), principal, code),
        )

    async def renew_delegation_token(
        self, request: RenewDelegationTokenRequest, principal: Principal
    ) -> RenewDelegationTokenResponse:
        return await self._submit(
            lambda image: self._controller.tokens.decide_renew(
                image, request, principal, self._clock.now_ms()
            ),
            lambda code, _: RenewDelegationTokenResponse(error_code=code),
        )

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, principal: Principal
    ) -> ExpireDelegationTokenResponse:
        return await self._submit(
            lambda image: self._controller.tokens.decide_expire(
                image, request, principal, self._clock.now_ms()
            ),
            lambda code, _: ExpireDelegationTokenResponse(error_code=code),
        )

    # From coroutines to decisions

    async def _submit(
        self, decide: Decide[R], error_response: ErrorResponse[R], timeout_ms: int | None = None
    ) -> R:
        if timeout_ms is not None and timeout_ms <= 0:
            return error_response(ErrorCode.REQUEST_TIMED_OUT, None)
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def respond(response: R) -> None:
            if not result.done():  # the connection of the client may be closed
                result.set_result(response)

        def refuse(code: ErrorCode, message: str | None) -> None:
            try:
                respond(error_response(code, message))
            except ApiError as error:
                if not result.done():
                    result.set_exception(error)

        self._runtime.submit(decide, respond, refuse)
        return await result

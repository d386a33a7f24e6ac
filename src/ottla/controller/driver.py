"""The controller port, served in this process: each request becomes one decision of the local controller.

Concurrency: the event loop. A coroutine that is cancelled changes nothing: its decision is made and committed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import brokers, configs, directories, features, producer_ids, topics
from ottla.controller.controller import Controller
from ottla.controller.port import DirectoryAssignments, NodeRegistration, ProducerIdBlock
from ottla.controller.quorum_status import describe_quorum
from ottla.controller.runtime import ControllerRuntime, Decide
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.records import FeatureLevelRecord
from ottla.quorum.quorum import Quorum
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
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
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

R = TypeVar("R")

ErrorResponse = Callable[[ErrorCode, str | None], R]


def _raise(code: ErrorCode, message: str | None) -> Any:
    raise ApiError(code, message)


class ControllerDriver:
    """`ControllerPort` over one quorum replica."""

    def __init__(
        self,
        controller: Controller,
        quorum: Quorum,
        publisher: MetadataPublisher,
        *,
        initial_levels: Sequence[FeatureLevelRecord],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._publisher = publisher
        self._on_fault = on_fault
        self._started: asyncio.Future[None] | None = None
        self._runtime = ControllerRuntime(
            controller,
            quorum,
            publisher,
            initial_levels=initial_levels,
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
            lambda image: brokers.decide_register_broker(image, request, self._quorum.log_end_offset),
            lambda code, _: BrokerRegistrationResponse(error_code=code),
        )

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        return await self._submit(
            lambda image: brokers.decide_heartbeat(image, request),
            lambda code, _: BrokerHeartbeatResponse(error_code=code),
        )

    async def alter_partition(
        self, request: AlterPartitionRequest, api_version: int
    ) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._submit(
            lambda image: producer_ids.decide_allocate_ids(image, request),
            lambda code, _: AllocateProducerIdsResponse(error_code=code),
        )

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        return await self._submit(
            lambda image: directories.decide_assign_replicas(image, request),
            lambda code, _: AssignReplicasToDirsResponse(error_code=code),
        )

    async def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> ControllerRegistrationResponse:
        return await self._submit(
            lambda image: brokers.decide_register_controller(image, request),
            lambda code, message: ControllerRegistrationResponse(error_code=code, error_message=message),
        )

    # Requests of the broker in the same process, with plain data

    async def register_node(self, node: NodeRegistration) -> int:
        return await self._decided(lambda i: brokers.decide_register(i, node, self._quorum.log_end_offset))

    async def unfence_broker(self, broker_id: int, broker_epoch: int) -> None:
        await self._decided(lambda image: brokers.decide_unfence(image, broker_id, broker_epoch))

    async def assign_directories(self, broker_id: int, assignments: DirectoryAssignments) -> None:
        await self._decided(lambda image: directories.decide_assign(image, broker_id, assignments))

    async def directories_failed(
        self, broker_id: int, broker_epoch: int, online: Sequence[uuid.UUID]
    ) -> None:
        await self._decided(lambda image: directories.decide_failed(image, broker_id, broker_epoch, online))

    async def allocate_block(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        return await self._decided(lambda image: producer_ids.decide_allocate(image, broker_id, broker_epoch))

    # Requests of clients

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._submit(
            lambda image: self._controller.topics.decide_create(image, request),
            lambda code, message: topics.refuse_create(request, code, message),
            timeout_ms=request.timeout_ms,
        )

    async def delete_topics(self, request: DeleteTopicsRequest, api_version: int) -> DeleteTopicsResponse:
        return await self._submit(
            lambda image: self._controller.topics.decide_delete(image, request, api_version),
            lambda code, message: topics.refuse_delete(request, code, message),
            timeout_ms=request.timeout_ms,
        )

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return await self._submit(
            lambda image: self._controller.topics.decide_create_partitions(image, request),
            lambda code, message: topics.refuse_create_partitions(request, code, message),
            timeout_ms=request.timeout_ms,
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
            lambda image: features.decide_update(image, request, api_version, kraft_version),
            features.refuse_update,
        )

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        return describe_quorum(request, self._quorum.describe())

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        return ElectLeadersResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    # From coroutines to decisions

    async def _decided(self, decide: Decide[R]) -> R:
        """A request of a broker: refusals are raised as ApiError."""
        return await self._submit(decide, cast(ErrorResponse[R], _raise))

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

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
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
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

    async def start(self) -> None:
        """Start the quorum; return when this node leads it and has applied its first records."""
        self._started = asyncio.get_running_loop().create_future()
        self._quorum.start(self._publisher, self._runtime)
        await self._started

    def _active(self) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    def _failed(self, error: BaseException) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_exception(error)
        else:
            self._on_fault(error)

    # Requests of brokers

    async def register_broker(self, node: NodeRegistration) -> int:
        return await self._decided(lambda i: brokers.decide_register(i, node, self._quorum.log_end_offset))

    async def unfence_broker(self, broker_id: int, broker_epoch: int) -> None:
        await self._decided(lambda image: brokers.decide_unfence(image, broker_id, broker_epoch))

    async def assign_directories(self, broker_id: int, assignments: DirectoryAssignments) -> None:
        await self._decided(lambda image: directories.decide_assign(image, broker_id, assignments))

    async def directories_failed(
        self, broker_id: int, broker_epoch: int, online: Sequence[uuid.UUID]
    ) -> None:
        await self._decided(lambda image: directories.decide_failed(image, broker_id, broker_epoch, online))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
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

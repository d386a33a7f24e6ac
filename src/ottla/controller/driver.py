"""The controller as handlers use it: ask, and be answered once the decision is committed.

One decision at a time, in the order of asking:

    decide on the image -> append to the quorum -> committed -> replay -> tell listeners -> answer

so the next decision sees what the last one did, and an answer never runs ahead of the log. What follows a
commit does not depend on whoever asked: a client that goes away changes nothing.

Failures. A refusal (`ApiError`), a bug in a decision, or a deadline that passed while waiting becomes an
error answer of the request's own shape; nothing has happened then. A failed append or a failed replay ends
the controller (`on_fault`): from then on everything is refused with KAFKA_STORAGE_ERROR. The process lives
on.

Concurrency: all methods belong to the event loop; completions of the quorum arrive there too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, LocalError
from ottla.controller import brokers, configs, directories, features, producer_ids, topics
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision
from ottla.controller.port import DirectoryAssignments, NodeRegistration, ProducerIdBlock
from ottla.controller.quorum_status import describe_quorum
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.records import FeatureLevelRecord
from ottla.metadata.snapshot import image_values
from ottla.quorum.quorum import Appended, Quorum
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
from ottla.wire.schema import Message

R = TypeVar("R")

Listener = Callable[[MetadataDelta, MetadataImage], None]
Decide = Callable[[MetadataImage], Decision[R]]
Refuse = Callable[[ErrorCode, str | None], R]

_log = structlog.get_logger(__name__)


class _Operation(Generic[R]):
    """A request that waits for its turn or for its commit."""

    __slots__ = ("answer", "deadline", "decide", "refuse")

    def __init__(
        self, decide: Decide[R], refuse: Refuse[R], deadline: float | None, answer: asyncio.Future[R]
    ) -> None:
        self.decide = decide
        self.refuse = refuse
        self.deadline = deadline
        self.answer = answer

    def give(self, response: R) -> None:
        if not self.answer.done():  # whoever asked may be gone
            self.answer.set_result(response)

    def fail(self, code: ErrorCode, message: str | None) -> None:
        if self.answer.done():
            return
        try:
            self.answer.set_result(self.refuse(code, message))
        except ApiError as error:
            self.answer.set_exception(error)


def _raise(code: ErrorCode, message: str | None) -> Any:
    raise ApiError(code, message)


class ControllerDriver:
    """Serves decisions of one controller over one quorum."""

    def __init__(
        self,
        controller: Controller,
        quorum: Quorum,
        clock: Clock,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._clock = clock
        self._on_fault = on_fault
        self._listeners: list[Listener] = []
        self._waiting: deque[_Operation[Any]] = deque()
        self._busy = False
        self._failed: str | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self._controller.image

    def add_listener(self, listener: Listener) -> None:
        """Call `listener(delta, image)` after each commit, before whoever asked is answered."""
        self._listeners.append(listener)

    def finalized_features(self) -> dict[str, int]:
        """Levels in force, the quorum's own included; their epoch is `image.offset`."""
        return {**self.image.features, features.KRAFT_VERSION: self._quorum.kraft_version}

    # Start

    async def start(self, initial_levels: Iterable[FeatureLevelRecord] | None = None) -> None:
        """Load what is committed and write what a new leader owes; `image` counts from here on."""
        await self._lead()
        offset, epoch = -1, 0

        def stored() -> Iterable[Message]:
            nonlocal offset, epoch
            for batch in self._quorum.load():
                offset, epoch = batch.last_offset, batch.epoch
                yield from map(decode_record, batch.values)

        self._controller.load(list(stored()), offset, epoch)
        levels = features.initial_records() if initial_levels is None else initial_levels
        await self._decided(lambda _: Decision(self._controller.decide_start(levels), None))

    async def _lead(self) -> None:
        led: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def leading(result: Appended | BaseException) -> None:
            if led.done():
                return
            if isinstance(result, BaseException):
                led.set_exception(result)
            else:
                led.set_result(None)

        self._quorum.lead(leading)
        await led

    async def register_broker(self, node: NodeRegistration) -> int:
        """Register this node, fenced; its broker epoch."""
        return await self._decided(lambda i: brokers.decide_register(i, node, self._quorum.log_end_offset))

    async def unfence_broker(self, broker_id: int, broker_epoch: int) -> None:
        """Let a registered broker serve and lead."""
        await self._decided(lambda image: brokers.decide_unfence(image, broker_id, broker_epoch))

    async def assign_directories(self, broker_id: int, assignments: DirectoryAssignments) -> None:
        """Note in which of its directories a broker keeps its replicas."""
        await self._decided(lambda image: directories.decide_assign(image, broker_id, assignments))

    async def directories_failed(
        self, broker_id: int, broker_epoch: int, online: Sequence[uuid.UUID]
    ) -> None:
        """Only these directories of a broker still work."""
        await self._decided(lambda image: directories.decide_failed(image, broker_id, broker_epoch, online))

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

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        """A block of ids for one broker; raises ApiError if it cannot be had."""
        return await self._decided(lambda image: producer_ids.decide_allocate(image, broker_id, broker_epoch))

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        return describe_quorum(request, self._quorum.describe())

    # The one queue

    async def _decided(self, decide: Decide[R]) -> R:
        """A decision of the node itself: refusals are raised."""
        return await self._submit(decide, cast(Refuse[R], _raise))

    async def _submit(self, decide: Decide[R], refuse: Refuse[R], timeout_ms: int | None = None) -> R:
        if timeout_ms is not None and timeout_ms <= 0:
            return refuse(ErrorCode.REQUEST_TIMED_OUT, None)
        deadline = None if timeout_ms is None else self._clock.monotonic() + timeout_ms / 1000
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Operation(decide, refuse, deadline, answer))
        self._advance()
        return await answer

    def _advance(self) -> None:
        """Take up waiting requests until one needs a commit."""
        while self._waiting and not self._busy:
            operation = self._waiting.popleft()
            if operation.answer.done():
                continue
            if self._failed is not None:
                operation.fail(ErrorCode.KAFKA_STORAGE_ERROR, self._failed)
            elif operation.deadline is not None and self._clock.monotonic() >= operation.deadline:
                operation.fail(ErrorCode.REQUEST_TIMED_OUT, None)
            else:
                self._decide(operation)

    def _decide(self, operation: _Operation[Any]) -> None:
        image = self._controller.image
        try:
            records, response = operation.decide(image)
            values = [encode_record(record, _version_at(image, records)) for record in records]
        except ApiError as error:
            operation.fail(error.code, error.message)
        except Exception:  # noqa: BLE001 - a bug in a decision is that request's misfortune, not the node's
            _log.exception("a decision of the controller failed; nothing was changed")
            operation.fail(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        else:
            if not records:
                operation.give(response)
                return
            self._busy = True
            self._quorum.append(values, lambda result: self._appended(operation, records, response, result))

    def _appended(
        self,
        operation: _Operation[Any],
        records: list[Message],
        response: Any,
        result: Appended | BaseException,
    ) -> None:
        self._busy = False
        if isinstance(result, BaseException):
            self._fail(result)
            operation.fail(ErrorCode.KAFKA_STORAGE_ERROR, self._failed)
        else:
            try:
                delta = self._controller.replay(records, result.last_offset, result.epoch)
            except Exception as error:  # noqa: BLE001 - a state nobody designed: this controller is over
                self._fail(error)
                operation.fail(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            else:
                self._publish(delta)
                operation.give(response)
                self._snapshot_if_due(result)
        self._advance()

    def _publish(self, delta: MetadataDelta) -> None:
        image = self._controller.image
        for listener in self._listeners:
            try:
                listener(delta, image)
            except Exception:  # noqa: BLE001 - what is committed stays true, whatever a listener makes of it
                _log.exception("a listener failed on metadata that is committed", offset=image.offset)

    def _snapshot_if_due(self, appended: Appended) -> None:
        if self._quorum.snapshot_due:
            values = image_values(self._controller.image)
            self._quorum.write_snapshot(appended.last_offset, appended.epoch, values)

    def _fail(self, error: BaseException) -> None:
        if self._failed is None:
            self._failed = f"the metadata log has failed: {error}"
            _log.error("the controller stops", reason=str(error))
            self._on_fault(error)


def _version_at(image: MetadataImage, records: list[Message]) -> int:
    """The metadata.version to write in: the one in force, or that which the records themselves begin with."""
    if image.metadata_version:
        return image.metadata_version
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == "metadata.version":
            return record.feature_level
    raise LocalError("the metadata has no metadata.version: the directory was never formatted")

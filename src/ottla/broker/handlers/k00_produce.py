"""Produce, versions 3-13. Versions 0-2 are listed and refused, as in Kafka, for old versions of librdkafka.

A batch is parsed in place, validated (`records.validation`), staged at the end of its log, written and synced in a
group commit, committed when the high watermark passes it, and then acknowledged.

- acks 0: no response; an error closes the connection. The request still occupies a slot until its batches are
  written, so that the number of pending requests is limited.
- acks 1: the response is sent when this broker has written the batch; acks -1: when it is committed.
- The response to a duplicate of an idempotent producer contains the original offset.
- If a partition occurs twice in a request, the last entry is used.
- Data that begin with an unknown magic or an impossible length refuse the whole request, with a text (2).
- Clients cannot produce to internal topics (17). Null records are refused (87; Kafka does not respond).
- The coordinator verifies batches of transactions (`broker.produce.transactional_produce`).
- From version 10 on errors about leadership contain the current leader and its endpoint (KIP-951).
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.verification import TxnVerifier
from ottla.broker.dependencies import MetadataCache
from ottla.broker.net.connection import Connection
from ottla.broker.produce.appender import Appender, refusal
from ottla.broker.produce.bulk_produce import BulkPath, BulkPaths, shape_of
from ottla.broker.produce.delayed_produce import ManyProduce, SingleProduce
from ottla.broker.produce.entries import VALID_ACKS, has_transactional, last_entries
from ottla.broker.produce.transactional_produce import TransactionalProduce
from ottla.broker.purgatory import Purgatory
from ottla.broker.quotas import Quotas
from ottla.broker.registry import Call, handles_frames
from ottla.broker.requirements import resources
from ottla.records.validation import BatchRefused
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.frame_reader import LARGE_FRAME_BYTES
from ottla.wire.frames import SIZE
from ottla.wire.produce import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    SingleResponse,
    parse_request,
)

_RESPONSES_MAX: Final = 4096
_ACKS_LEADER: Final = 1
_WRITE_MS: Final = 5_000
"""The least timeout of a write that needs no other broker; Kafka has none."""


@handles_frames(
    ApiKey.PRODUCE,
    versions=(3, 13),
    advertised=(0, 13),
    requires=resources(
        (Operation.WRITE, ResourceType.TOPIC), (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
    ),
)
class Produce:
    """Appends batches to partitions that this broker leads."""

    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        replicas: Replicas,
        purgatory: Purgatory,
        verifier: TxnVerifier,
        quotas: Quotas,
        authorization: Authorization,
    ) -> None:
        self._clock = clock
        self._purgatory = purgatory
        self._verifier = verifier
        self._quotas = quotas
        self._appender = Appender(clock, metadata, replicas, authorization)
        self._authorization = authorization
        self._responses: dict[tuple[int, bytes], SingleResponse] = {}

    def handle(self, connection: Connection, frame: memoryview, body: int, call: Call) -> None:
        quota = self._quotas.produce
        if quota is not None:
            call.throttle_ms = quota.charge(connection, call, SIZE.size + len(frame))
        request = parse_request(frame, body, call.api_version)
        topics = request.topics
        try:
            transactional = has_transactional(topics)
        except BatchRefused as error:
            self._refuse(connection, request, error, call, len(frame))
            return
        if transactional and self._lacks_transactional_id(request, call):
            denied = ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            self._refuse(connection, request, denied, call, len(frame))
        elif transactional:
            pending = self._pending(connection, request, call, len(frame))
            TransactionalProduce(self._appender, self._verifier, pending, call).start(request)
        elif request.acks not in VALID_ACKS:
            self._refuse_acks(connection, request, call, len(frame))
        elif request.acks and len(topics) == 1 and len(topics[0][1]) == 1:
            key, (entry,) = topics[0]
            self._produce_one(connection, key, entry, request, call, frame)
        else:
            self._produce_many(connection, request, call, len(frame))

    def _lacks_transactional_id(self, request: ProduceRequest, call: Call) -> bool:
        name = request.transactional_id
        return name is not None and not self._authorization.allows(
            call.origin, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name
        )

    def _produce_one(
        self,
        connection: Connection,
        key: bytes,
        entry: PartitionRecords,
        request: ProduceRequest,
        call: Call,
        frame: memoryview,
    ) -> None:
        """Handle the common request: one batch for one partition, with a response."""
        appender, purgatory, version = self._appender, self._purgatory, call.api_version
        response = self._responses.get((version, key)) or self._response(version, key)
        timeout_ms = self._timeout_ms(request, call)
        deadline = purgatory.now() + timeout_ms / 1000
        pending = SingleProduce(connection, purgatory, response, len(frame), deadline, call, key, appender)
        partition = None
        try:
            partition = appender.find(key, entry[0], call)
            appender.append(partition, entry[1], request.acks, call, pending)
        except ApiError as error:
            results = [(key, [refusal(entry, error, partition, version)])]
            connection.respond((appender.encode(results, call),))
            return
        paths = connection.bulk_paths
        if paths is None:
            paths = connection.bulk_paths = BulkPaths()
        if paths.produced(partition):
            self._enable_bulk(paths, key, entry, request, call, partition, frame, timeout_ms)

    def _enable_bulk(
        self,
        paths: BulkPaths,
        key: bytes,
        entry: PartitionRecords,
        request: ProduceRequest,
        call: Call,
        partition: Partition,
        frame: memoryview,
        timeout_ms: int,
    ) -> None:
        """Enable bulk appends: this is at least the second request for the partition."""
        shape = None if entry[1] is None else shape_of(frame, entry[1], call.api_version)
        if shape is not None and len(frame) <= LARGE_FRAME_BYTES:
            path = BulkPath(
                self._clock,
                self._purgatory,
                partition,
                key,
                shape,
                call=call,
                appender=self._appender,
                quotas=self._quotas,
                acks=request.acks,
                timeout_ms=timeout_ms,
            )
            paths.add(shape, path)

    def _produce_many(self, connection: Connection, request: ProduceRequest, call: Call, weight: int) -> None:
        appender, pending = self._appender, self._pending(connection, request, call, weight)
        for key, entries in last_entries(request):
            pending.add_topic(key)
            for entry in entries.items():
                slot, found = pending.add(entry[0]), None
                try:
                    found = appender.find(key, entry[0], call)
                    appender.append(found, entry[1], request.acks, call, slot)
                except ApiError as error:
                    slot.set(refusal(entry, error, found, call.api_version))
        pending.start()

    def _refuse_acks(self, connection: Connection, request: ProduceRequest, call: Call, weight: int) -> None:
        """Respond to unknown acks, after the errors that Kafka finds before."""
        pending = self._pending(connection, request, call, weight)
        for key, entries in last_entries(request):
            pending.add_topic(key)
            for entry in entries.items():
                slot = pending.add(entry[0])
                try:
                    self._appender.check(key, entry, call)
                    slot.set(PartitionResult(entry[0], ErrorCode.INVALID_REQUIRED_ACKS))
                except ApiError as error:
                    slot.set(refusal(entry, error, None, call.api_version))
        pending.start()

    def _refuse(
        self, connection: Connection, request: ProduceRequest, error: ApiError, call: Call, weight: int
    ) -> None:
        """Respond with one error for every partition."""
        pending = self._pending(connection, request, call, weight)
        for key, entries in last_entries(request):
            pending.add_topic(key)
            for index in entries:
                pending.add(index).set(PartitionResult(index, error.code, error_message=error.message))
        pending.start()

    def _pending(
        self, connection: Connection, request: ProduceRequest, call: Call, weight: int
    ) -> ManyProduce:
        purgatory = self._purgatory
        if request.acks == 0:
            return ManyProduce(connection, purgatory, weight, inf, None)
        deadline = purgatory.now() + self._timeout_ms(request, call) / 1000
        return ManyProduce(connection, purgatory, weight, deadline, partial(self._appender.encode, call=call))

    def _timeout_ms(self, request: ProduceRequest, call: Call) -> int:
        """Return the timeout of the request. It limits the wait for followers, not the write of this broker."""
        if request.timeout_ms >= _WRITE_MS:
            return request.timeout_ms
        alone = request.acks == _ACKS_LEADER or all(
            self._appender.writes_alone(key, index, call)
            for key, entries in request.topics
            for index, _ in entries
        )
        return _WRITE_MS if alone else request.timeout_ms

    def _response(self, version: int, key: bytes) -> SingleResponse:
        if len(self._responses) >= _RESPONSES_MAX:
            self._responses.clear()
        made = self._responses[version, key] = SingleResponse(version, key)
        return made

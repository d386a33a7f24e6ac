"""Produce, versions 3-13 (0-2 are listed and refused, as Kafka does for old librdkafka's sake).

The way of a batch: parsed in place, checked (`records.validation`), staged at the end of its log, written and
synced by the committer in a group, committed when the high watermark passes it, then acknowledged.

- acks 0: never answered; an error closes the connection, for there is no other way to tell it. All the same it
  has a place among the answers until it is written, so that a flood of them is held back.
- acks 1: answered when this broker holds the batch; acks -1: when it is committed. Alone, that is the same.
- A duplicate of an idempotent producer is answered with its original offset.
- Of a partition named twice the last entry counts.
- Data that begin with an unknown magic or an impossible length refuse the whole request, with a text (2).
- Internal topics are for the broker itself (17). Null records are refused (87; Kafka never answers).
- Batches of transactions take a way of their own (`broker.produce.transactional_produce`): their coordinator is asked.
- From version 10 on errors about leadership name the leader and where it listens (KIP-951).
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.produce.delayed_produce import ManyProduce, SingleProduce
from ottla.broker.produce.entries import (
    VALID_ACKS,
    Results,
    encode,
    find,
    has_transactional,
    last_entries,
    records_of,
    refused,
)
from ottla.broker.produce.run_produce import ProduceLane, shape_of
from ottla.broker.produce.transactional_produce import produce_transactional
from ottla.broker.registry import Call, handles_frames
from ottla.records.validation import BatchRefused
from ottla.replication.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.frame_reader import LARGE_FRAME_BYTES
from ottla.wire.produce import (
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    SingleResponse,
    parse_request,
)

_RESPONSES_MAX: Final = 4096
_responses: dict[tuple[int, bytes], SingleResponse] = {}


@handles_frames(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13))
def produce(frame: memoryview, body: int, call: Call) -> None:
    request = parse_request(frame, body, call.api_version)
    topics = request.topics
    try:
        transactional = has_transactional(topics)
    except BatchRefused as error:
        _produce_many(request, error, call, len(frame))
        return
    if transactional:
        produce_transactional(request, call, len(frame))
    elif request.acks not in VALID_ACKS:
        _produce_many(request, ApiError(ErrorCode.INVALID_REQUIRED_ACKS), call, len(frame))
    elif request.acks and len(topics) == 1 and len(topics[0][1]) == 1:
        key, (entry,) = topics[0]
        _produce_one(key, entry, request, call, frame)
    else:
        _produce_many(request, None, call, len(frame))


def _produce_one(
    key: bytes, entry: PartitionRecords, request: ProduceRequest, call: Call, frame: memoryview
) -> None:
    """The common request: one batch for one partition, to be acknowledged."""
    broker, connection, version = call.broker, call.connection, call.api_version
    partition = None
    try:
        partition = find(key, entry[0], call)
        records = records_of(entry)
        appended = partition.append(records, request.acks, broker.clock.now_ms(), version)
    except ApiError as error:
        results = [(key, [refused(entry, error, partition)])]
        connection.reply((encode(results, call),))
        return
    response = _responses.get((version, key)) or _response(version, key)
    purgatory = broker.purgatory
    deadline = purgatory.now() + request.timeout_ms / 1000
    if connection.last_produced is partition:
        _open_lane(key, records, request, call, partition, frame)
    connection.last_produced = partition
    waiting = SingleProduce(connection, purgatory, response, len(frame), deadline)
    if partition.wait_append(appended.last_offset + 1, request.acks, waiting):
        waiting.wait(partition, appended, call.correlation_id, version, key)
        return
    connection.reply(
        (
            response.encode(
                call.correlation_id,
                entry[0],
                appended.base_offset,
                appended.log_append_time_ms,
                partition.log.log_start_offset,
            ),
        )
    )


def _open_lane(
    key: bytes,
    records: memoryview,
    request: ProduceRequest,
    call: Call,
    partition: Partition,
    frame: memoryview,
) -> None:
    """The second request in a row for one partition: the next of its shape may take the short way."""
    shape = shape_of(frame, records, call.api_version)
    if shape is not None and len(frame) <= LARGE_FRAME_BYTES:
        call.connection.lane = ProduceLane(call, shape, key, partition, request.acks, request.timeout_ms)


def _produce_many(request: ProduceRequest, refusal: ApiError | None, call: Call, weight: int) -> None:
    broker, connection = call.broker, call.connection
    if request.acks == 0:
        waiting = ManyProduce(connection, broker.purgatory, weight, inf, None)
    else:
        deadline = broker.purgatory.now() + request.timeout_ms / 1000
        waiting = ManyProduce(connection, broker.purgatory, weight, deadline, partial(encode, call=call))
    results: Results = []
    failed = False
    for key, entries in last_entries(request):
        made: list[PartitionResult] = []
        for index, records in entries.items():
            if refusal is not None:
                made.append(PartitionResult(index, refusal.code, error_message=refusal.message))
            else:
                made.append(
                    _append(key, (index, records), request.acks, call, waiting, (len(results), len(made)))
                )
            failed = failed or made[-1].error_code != 0
        results.append((key, made))
    if failed and request.acks == 0:
        connection.close()
    else:
        waiting.start(results)


def _append(
    key: bytes, entry: PartitionRecords, acks: int, call: Call, waiting: ManyProduce, place: tuple[int, int]
) -> PartitionResult:
    partition = None
    try:
        partition = find(key, entry[0], call)
        appended = partition.append(records_of(entry), acks, call.broker.clock.now_ms(), call.api_version)
    except ApiError as error:
        return refused(entry, error, partition)
    if not partition.wait_append(appended.last_offset + 1, acks, waiting.waiter(*place)):
        waiting.forget(*place)
    return PartitionResult(
        entry[0], 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset
    )


def _response(version: int, key: bytes) -> SingleResponse:
    if len(_responses) >= _RESPONSES_MAX:
        _responses.clear()
    made = _responses[version, key] = SingleResponse(version, key)
    return made

"""Produce, versions 3-13 (0-2 are listed and refused, as Kafka does for old librdkafka's sake).

The way of a batch: parsed in place, checked (`records.validation`), staged at the end of its log, written and
synced by the committer in a group, committed when the high watermark passes it, then acknowledged.

- acks 0: never answered; an error closes the connection, for there is no other way to tell it. All the same it
  has a place among the answers until it is written, so that a flood of them is held back.
- acks 1: answered when this broker holds the batch; acks -1: when it is committed. Alone, that is the same.
- A duplicate of an idempotent producer is answered with its original offset.
- Of a partition named twice the last entry counts.
- Internal topics are for the broker itself (17). Null records are refused (87; Kafka never answers).
- There is no transaction coordinator: transactional batches are refused as Kafka refuses those of a
  transaction it does not know: 48, from version 11 on 120, from version 12 on 49; without transactional id 53.
- From version 10 on errors about leadership name the leader and where it listens (KIP-951).
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker import leader_hints
from ottla.broker.delayed_produce import ManyProduce, SingleProduce
from ottla.broker.limits import LARGE_FRAME_BYTES
from ottla.broker.produce_lane import ProduceLane, shape_of
from ottla.broker.registry import Call, handles_frames
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_MASK,
)
from ottla.records.validation import BatchRefused
from ottla.replication.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.produce import (
    FIRST_TOPIC_IDS,
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    SingleResponse,
    encode_response,
    parse_request,
)

_INTERNAL: Final = frozenset(name.encode() for name in INTERNAL_TOPICS)
_ADMIN_CLIENT: Final = "__admin_client"
_VALID_ACKS: Final = (-1, 0, 1)
# Errors that Kafka answers without looking at the log.
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_RESPONSES_MAX: Final = 4096
_responses: dict[tuple[int, bytes], SingleResponse] = {}

Results = list[tuple[bytes, list[PartitionResult]]]


@handles_frames(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13))
def produce(frame: memoryview, body: int, call: Call) -> None:
    request = parse_request(frame, body, call.api_version)
    topics = request.topics
    refusal = _refusal(request, call)
    if refusal is None and request.acks and len(topics) == 1 and len(topics[0][1]) == 1:
        key, (entry,) = topics[0]
        _produce_one(key, entry, request, call, frame)
    else:
        _produce_many(request, refusal, call, len(frame))


def _refusal(request: ProduceRequest, call: Call) -> ErrorCode | None:
    """Why no batch of this request can be taken, if so."""
    if request.acks not in _VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    for _, entries in request.topics:
        for _, records in entries:
            if records is not None and _is_transactional(records):
                return _transaction_error(request, call.api_version)
    return None


def _is_transactional(records: memoryview) -> bool:
    low_byte = ATTRIBUTES_OFFSET + 1
    return len(records) > low_byte and bool(records[low_byte] & TRANSACTIONAL_MASK)


def _transaction_error(request: ProduceRequest, version: int) -> ErrorCode:
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version >= 12:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE


def _produce_one(
    key: bytes, entry: PartitionRecords, request: ProduceRequest, call: Call, frame: memoryview
) -> None:
    """The common request: one batch for one partition, to be acknowledged."""
    broker, connection, version = call.broker, call.connection, call.api_version
    partition = None
    try:
        partition = _find(key, entry[0], call)
        records = _records(entry)
        appended = partition.append(records, request.acks, broker.clock.now_ms(), version)
    except ApiError as error:
        results = [(key, [_refused(entry, error, partition)])]
        connection.reply((_encode(results, call),))
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


def _produce_many(request: ProduceRequest, refusal: ErrorCode | None, call: Call, weight: int) -> None:
    broker, connection = call.broker, call.connection
    if request.acks == 0:
        waiting = ManyProduce(connection, broker.purgatory, weight, inf, None)
    else:
        deadline = broker.purgatory.now() + request.timeout_ms / 1000
        waiting = ManyProduce(connection, broker.purgatory, weight, deadline, partial(_encode, call=call))
    results: Results = []
    failed = False
    for key, entries in _last_entries(request):
        made: list[PartitionResult] = []
        for index, records in entries.items():
            if refusal is not None:
                made.append(PartitionResult(index, refusal))
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
        partition = _find(key, entry[0], call)
        appended = partition.append(_records(entry), acks, call.broker.clock.now_ms(), call.api_version)
    except ApiError as error:
        return _refused(entry, error, partition)
    if not partition.wait_append(appended.last_offset + 1, acks, waiting.waiter(*place)):
        waiting.forget(*place)
    return PartitionResult(
        entry[0], 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset
    )


def _last_entries(request: ProduceRequest) -> list[tuple[bytes, dict[int, memoryview | None]]]:
    """Topics and partitions as they are named first, records as they are named last."""
    merged: dict[bytes, dict[int, memoryview | None]] = {}
    for key, entries in request.topics:
        if entries:
            merged.setdefault(key, {}).update(entries)
    return list(merged.items())


def _find(key: bytes, index: int, call: Call) -> Partition:
    by_id = call.api_version >= FIRST_TOPIC_IDS
    partition = call.broker.replicas.lookup(key, index, by_id=by_id)
    if partition.topic.encode() in _INTERNAL and call.client_id != _ADMIN_CLIENT:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return partition


def _records(entry: PartitionRecords) -> memoryview:
    if entry[1] is None:
        raise BatchRefused(ErrorCode.INVALID_RECORD, "there are no records")
    return entry[1]


def _refused(entry: PartitionRecords, error: ApiError, partition: Partition | None) -> PartitionResult:
    """Kafka tells the log's start only if it came to look at the log, and a text only about single records."""
    log_start = -1
    if partition is not None and error.code not in _WITHOUT_LOG_START and _is_one_batch(entry[1]):
        log_start = partition.log.log_start_offset
    if isinstance(error, BatchRefused) and error.record_errors:
        return PartitionResult(entry[0], error.code, -1, -1, log_start, error.record_errors, error.message)
    return PartitionResult(entry[0], error.code, -1, -1, log_start)


def _is_one_batch(records: memoryview | None) -> bool:
    """Whether the data look like one batch of the right format, before anything in it is checked."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_OFFSET] != MAGIC:
        return False
    left = len(records) - int.from_bytes(records[LENGTH_OFFSET : LENGTH_OFFSET + 4], "big") - LOG_OVERHEAD
    return 0 <= left < HEADER_SIZE


def _response(version: int, key: bytes) -> SingleResponse:
    if len(_responses) >= _RESPONSES_MAX:
        _responses.clear()
    made = _responses[version, key] = SingleResponse(version, key)
    return made


def _encode(results: Results, call: Call) -> bytes:
    by_id = call.api_version >= FIRST_TOPIC_IDS
    image, leaders = call.broker.image, set[int]()
    for key, made in results:
        for slot, result in enumerate(made):
            if result.error_code in leader_hints.HINTED:
                leader = leader_hints.current_leader(image, key, result.partition, by_id=by_id)
                if leader is not None:
                    made[slot] = result._replace(current_leader=leader)
                    leaders.add(leader[0])
    endpoints = leader_hints.endpoints(image, leaders, call.listener.name) if leaders else ()
    return encode_response(call.api_version, call.correlation_id, results, endpoints)

"""What all ways of a Produce request share: where its batches go, what its answers say.

Concurrency: the event loop only.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker import leader_hints
from ottla.broker.registry import Call
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.records.batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_MASK,
)
from ottla.records.validation import BatchRefused, check_format
from ottla.replication.partition import Partition
from ottla.wire.produce import (
    FIRST_TOPIC_IDS,
    PartitionRecords,
    PartitionResult,
    ProduceRequest,
    TopicRecords,
    encode_response,
)

VALID_ACKS: Final = (-1, 0, 1)
_INTERNAL: Final = frozenset(name.encode() for name in INTERNAL_TOPICS)
_ADMIN_CLIENT: Final = "__admin_client"
# Batch length, magic and attributes of a batch header.
_HEAD: Final = Struct(">8xi4xb4xh")
_LENGTH_PLAUSIBLE: Final = HEADER_SIZE - LOG_OVERHEAD
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

Results = list[tuple[bytes, list[PartitionResult]]]


def is_transactional(records: memoryview) -> bool:
    """Return whether the data begin with a complete batch of a transaction."""
    if len(records) < HEADER_SIZE:
        return False
    length, magic, attributes = _HEAD.unpack_from(records)
    complete = magic == MAGIC and length <= len(records) - LOG_OVERHEAD
    return bool(complete and attributes & TRANSACTIONAL_MASK)


def has_transactional(topics: list[TopicRecords]) -> bool:
    """Return whether a batch of the request belongs to a transaction.

    Raise BatchRefused for data that begin with an unknown format. Kafka checks this before topics, acks and the
    transactional id, entry by entry up to the first transactional batch, and refuses the whole request.
    """
    for _, entries in topics:
        for _, records in entries:
            if records is None:
                continue
            if len(records) >= HEADER_SIZE:
                length, magic, attributes = _HEAD.unpack_from(records)
                if magic == MAGIC and length >= _LENGTH_PLAUSIBLE and not attributes & TRANSACTIONAL_MASK:
                    continue
            check_format(records)
            if is_transactional(records):
                return True
    return False


def last_entries(request: ProduceRequest) -> list[tuple[bytes, dict[int, memoryview | None]]]:
    """Topics and partitions as they are named first, records as they are named last."""
    merged: dict[bytes, dict[int, memoryview | None]] = {}
    for key, entries in request.topics:
        if entries:
            merged.setdefault(key, {}).update(entries)
    return list(merged.items())


def find(key: bytes, index: int, call: Call) -> Partition:
    by_id = call.api_version >= FIRST_TOPIC_IDS
    partition = call.broker.replicas.lookup(key, index, by_id=by_id)
    if partition.topic.encode() in _INTERNAL and call.client_id != _ADMIN_CLIENT:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return partition


def records_of(entry: PartitionRecords) -> memoryview:
    if entry[1] is None:
        raise BatchRefused(ErrorCode.INVALID_RECORD, "there are no records")
    return entry[1]


def refused(entry: PartitionRecords, error: ApiError, partition: Partition | None) -> PartitionResult:
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


def encode(results: Results, call: Call) -> bytes:
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

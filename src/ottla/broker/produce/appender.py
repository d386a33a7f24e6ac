"""Appends the batches of Produce requests to partitions of this broker and creates their results.

Every path of a Produce request uses `Appender.append`: one batch, several batches, batches of transactions. Only bulk
appends (`broker.produce.bulk_produce`) do not: they validate and number their batches themselves.

Concurrency: the event loop only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker import leader_hints
from ottla.broker.access import check_missing
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.records.batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC, MAGIC_OFFSET
from ottla.records.validation import BatchRefused, check_one_batch
from ottla.replication.partition import AppendWaiter, Partition
from ottla.security.resources import Operation, ResourceType
from ottla.wire.produce import FIRST_TOPIC_IDS, PartitionRecords, PartitionResult, encode_response

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.broker.authorization import Authorization
    from ottla.broker.dependencies import MetadataCache
    from ottla.broker.registry import Call
    from ottla.replication.replicas import Replicas
    from ottla.storage.log.appended import Appended
    from ottla.storage.producers.producer_state import Verification

_ADMIN_CLIENT: Final = "__admin_client"
# Members of an enumeration are slow to look up for each request.
_WRITE, _TOPIC = Operation.WRITE, ResourceType.TOPIC
# Errors for which Kafka does not look up the log start offset.
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

# Errors that are found before the data are looked at.
_OF_THE_TOPIC: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
# Errors of the partition, which are found when the data are known to be one batch.
_OF_THE_PARTITION: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)

TopicResults = list[tuple[bytes, list[PartitionResult]]]
"""The results of a request: the key of each topic (name or id) and its partitions."""


class ProduceWaiter(AppendWaiter, Protocol):
    """Waits for the acknowledgement of a produced batch."""

    def appended(self, partition: Partition, appended: Appended) -> None:
        """The batch is appended; `append_done` follows, perhaps at once."""
        ...


class Appender:
    """The produce path of one node, behind parsing and in front of the partitions."""

    __slots__ = ("_clock", "_metadata", "_replicas", "authorization")

    def __init__(
        self, clock: Clock, metadata: MetadataCache, replicas: Replicas, authorization: Authorization
    ) -> None:
        self.authorization = authorization
        self._clock = clock
        self._metadata = metadata
        self._replicas = replicas

    def find(self, key: bytes, index: int, call: Call) -> Partition:
        """Return the partition that a client may produce to; raises ApiError."""
        by_id, authorization = call.api_version >= FIRST_TOPIC_IDS, self.authorization
        try:
            partition = self._replicas.lookup(key, index, by_id=by_id)
        except ApiError:
            if authorization.enabled:
                check_missing(authorization, call, _WRITE, self._metadata.image, key, by_id=by_id)
            raise
        if authorization.enabled and not authorization.allows(call.origin, _WRITE, _TOPIC, partition.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if partition.topic in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        return partition

    def check(self, key: bytes, entry: PartitionRecords, call: Call) -> None:
        """Raise ApiError for what Kafka checks before acks and transactions: topic, rights, one batch."""
        try:
            self.find(key, entry[0], call)
        except ApiError as error:
            if error.code in _OF_THE_TOPIC:
                raise
        unfit = format_error(entry[1], call.api_version)
        if unfit is not None:
            raise unfit

    def writes_alone(self, key: bytes, index: int, call: Call) -> bool:
        """Return whether an acknowledgement of the partition depends on no other broker."""
        try:
            return len(self.find(key, index, call).isr) <= 1
        except ApiError:
            return True

    def append(
        self,
        partition: Partition,
        records: memoryview | None,
        acks: int,
        call: Call,
        waiter: ProduceWaiter,
        verification: Verification | None = None,
    ) -> None:
        """Append one batch and notify `waiter` when it is acknowledged; raises ApiError."""
        if records is None:
            raise _no_records()
        version = call.api_version
        appended = partition.append(records, acks, self._clock.now_ms(), version, verification)
        waiter.appended(partition, appended)
        partition.wait_append(appended.last_offset + 1, acks, waiter)

    def encode(self, results: TopicResults, call: Call) -> bytes:
        """Encode a response, with the current leaders where the error is about leadership (KIP-951)."""
        by_id = call.api_version >= FIRST_TOPIC_IDS
        image, leaders = self._metadata.image, set[int]()
        for key, made in results:
            for slot, result in enumerate(made):
                if result.error_code in leader_hints.HINTED:
                    leader = leader_hints.current_leader(image, key, result.partition, by_id=by_id)
                    if leader is not None:
                        made[slot] = result._replace(current_leader=leader)
                        leaders.add(leader[0])
        endpoints = leader_hints.endpoints(image, leaders, call.origin.listener.name) if leaders else ()
        return encode_response(call.api_version, call.correlation_id, results, endpoints, call.throttle_ms)


def format_error(records: memoryview | None, api_version: int) -> ApiError | None:
    """Return the error of data that are not one batch."""
    if records is None:
        return _no_records()
    try:
        check_one_batch(records, api_version=api_version)
    except BatchRefused as error:
        return error
    return None


def _no_records() -> BatchRefused:
    return BatchRefused(ErrorCode.INVALID_RECORD, "there are no records")


def refusal(
    entry: PartitionRecords, error: ApiError, partition: Partition | None, api_version: int
) -> PartitionResult:
    """Return the result of a refused batch.

    As in Kafka it has the log start offset only if the log was looked at, and a text only about single records.
    """
    if error.code in _OF_THE_PARTITION:
        error = format_error(entry[1], api_version) or error
    log_start = -1
    if partition is not None:
        partition.traffic.failed_produce_requests += 1
    if partition is not None and error.code not in _WITHOUT_LOG_START and _is_one_batch(entry[1]):
        log_start = partition.log.log_start_offset
    if isinstance(error, BatchRefused) and error.record_errors:
        return PartitionResult(entry[0], error.code, -1, -1, log_start, error.record_errors, error.message)
    return PartitionResult(entry[0], error.code, -1, -1, log_start)


def _is_one_batch(records: memoryview | None) -> bool:
    """Return whether the data look like one batch of the right format, before anything in it is checked."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_OFFSET] != MAGIC:
        return False
    left = len(records) - int.from_bytes(records[LENGTH_OFFSET : LENGTH_OFFSET + 4], "big") - LOG_OVERHEAD
    return 0 <= left < HEADER_SIZE

"""Produce requests that contain batches of transactions.

The first batch of a transaction in a partition waits until the coordinator of the transaction has verified the
partition (`coordination.verification`); the following batches are appended at once. A batch that waits is copied,
because the memory of its frame is reused, and its request reserves the slot of its response. Each batch is appended
when its own verification is complete; verifications of a partition complete in the order of the requests.

- Without a transactional id the whole request is refused (53), and if the batches for known partitions have several
  producers (49).
- Up to version 11 the client has added the partitions before; from version 12 on its batches add them.
- An error that is worth a retry is reported as NOT_ENOUGH_REPLICAS: every client retries the request then, and none
  refreshes its metadata first. TRANSACTION_ABORTABLE is reported from version 11 on, before as INVALID_TXN_STATE.

Concurrency: the event loop only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.produce.appender import Appender, refusal
from ottla.broker.produce.entries import VALID_ACKS, TopicEntries, is_transactional, last_entries
from ottla.coordinator.txn.transaction import Producer
from ottla.records.batch import BatchHeader, read_header
from ottla.replication.partition import EPOCH_PER_TRANSACTION_SINCE, Partition
from ottla.wire.produce import PartitionRecords, PartitionResult, ProduceRequest

if TYPE_CHECKING:
    from ottla.broker.coordination.verification import TxnVerifier
    from ottla.broker.produce.delayed_produce import BatchSlot, ManyProduce
    from ottla.broker.registry import Call
    from ottla.storage.producers.producer_state import Verification

_KNOWS_ABORTABLE: Final = 11
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionalProduce:
    """One request while its batches are being verified."""

    def __init__(self, appender: Appender, verifier: TxnVerifier, pending: ManyProduce, call: Call) -> None:
        self._appender = appender
        self._verifier = verifier
        self._pending = pending
        self._call = call
        self._acks = 0
        self._open = 0

    def start(self, request: ProduceRequest) -> None:
        self._acks = request.acks
        topics = last_entries(request)
        refused = self._refused(topics)
        error = _request_error(request, topics, refused)
        verified: list[tuple[BatchSlot, PartitionRecords, Partition, Promise[Verification | None]]] = []
        for key, entries in topics:
            self._pending.add_topic(key)
            for entry in entries.items():
                slot = self._pending.add(entry[0])
                if error is not None:
                    slot.set(PartitionResult(entry[0], error.code, error_message=error.message))
                    continue
                try:
                    if (key, entry[0]) in refused:
                        raise refused[key, entry[0]]
                    partition = self._appender.find(key, entry[0], self._call)
                    verification = self._verify(partition, entry[1], request.transactional_id or "")
                    verified.append((slot, entry, partition, verification))
                except ApiError as one:
                    slot.set(refusal(entry, one, None, self._call.api_version))
        self._open = len(verified)
        if any(not promise.done for _, _, _, promise in verified):
            self._pending.reserve()
        for slot, entry, partition, promise in verified:
            if not promise.done and entry[1] is not None:
                entry = (entry[0], memoryview(bytearray(entry[1])))  # noqa: PLW2901 - the frame will be reused
            promise.when_done(partial(self._append, slot, entry, partition))
        if not verified:
            self._pending.start()

    def _refused(self, topics: list[TopicEntries]) -> dict[tuple[bytes, int], ApiError]:
        """Return the errors that are found before the transaction is looked at."""
        found = {}
        for key, entries in topics:
            for entry in entries.items():
                try:
                    self._appender.check(key, entry, self._call)
                except ApiError as error:
                    found[key, entry[0]] = error
        return found

    def _verify(
        self, partition: Partition, records: memoryview | None, transactional_id: str
    ) -> Promise[Verification | None]:
        if records is None or not is_transactional(records):
            return Promise.kept(None)
        header = read_header(records)
        version = self._call.api_version
        return self._verifier.verify(
            transactional_id,
            Producer(header.producer_id, header.producer_epoch),
            TopicPartition(partition.topic, partition.index),
            header.base_sequence,
            add=version >= EPOCH_PER_TRANSACTION_SINCE,
            abortable=version >= _KNOWS_ABORTABLE,
        )

    def _append(
        self,
        slot: BatchSlot,
        entry: PartitionRecords,
        partition: Partition,
        verification: Verification | None,
        error: BaseException | None,
    ) -> None:
        if error is None:
            self._append_verified(slot, entry, partition, verification)
        elif isinstance(error, ApiError):
            adds = self._call.api_version >= EPOCH_PER_TRANSACTION_SINCE
            slot.set(_unverified(entry[0], error.code, adds=adds))
        else:
            self._pending.abort()
            raise error
        self._open -= 1
        if self._open == 0:
            self._pending.start()

    def _append_verified(
        self,
        slot: BatchSlot,
        entry: PartitionRecords,
        partition: Partition,
        verification: Verification | None,
    ) -> None:
        if self._acks not in VALID_ACKS:
            slot.set(PartitionResult(entry[0], ErrorCode.INVALID_REQUIRED_ACKS))
            return
        try:
            self._appender.append(partition, entry[1], self._acks, self._call, slot, verification)
        except ApiError as error:
            slot.set(refusal(entry, error, partition, self._call.api_version))


def _request_error(
    request: ProduceRequest, topics: list[TopicEntries], refused: dict[tuple[bytes, int], ApiError]
) -> ApiError | None:
    """Return the error of the whole request, if there is one."""
    if request.transactional_id is None:
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    headers: list[BatchHeader] = [
        read_header(records)
        for key, entries in topics
        for index, records in entries.items()
        if (key, index) not in refused and records is not None and is_transactional(records)
    ]
    if len({(header.producer_id, header.producer_epoch) for header in headers}) > 1:
        return ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional batches have different producer ids"
        )
    return None


def _unverified(index: int, code: ErrorCode, *, adds: bool) -> PartitionResult:
    """Return the result of a batch that the coordinator did not verify.

    A client whose batches add their partitions expects CONCURRENT_TRANSACTIONS while its last transaction ends.
    """
    if code in _RETRIABLE and not (adds and code is ErrorCode.CONCURRENT_TRANSACTIONS):
        text = f"the transaction coordinator could not verify this partition: {code.name}"
        return PartitionResult(index, ErrorCode.NOT_ENOUGH_REPLICAS, error_message=text)
    missing = code is ErrorCode.INVALID_TXN_STATE
    text = "this partition was not added to the transaction"
    return PartitionResult(index, code, error_message=text if missing else None)

"""Produce requests that carry batches of a transaction.

The first batch of a transaction in a partition waits until the transaction's coordinator has said that it knows
the partition (`coordination.verification`); the others go straight to the log. A batch that waits is copied, for its
frame's memory is not its own, and its request keeps its place among the connection's answers. Each batch is
appended when its own answer is there, in the order of the questions.

- Without transactional id the whole request is refused (53), with several producers too (49).
- Up to version 11 the client has named its partitions before; from version 12 on its batches do.
- An answer that a client may await is told as NOT_ENOUGH_REPLICAS: every client repeats the request then, and none
  asks for metadata first. TRANSACTION_ABORTABLE is told from version 11 on, before it is INVALID_TXN_STATE.

Concurrency: the event loop only.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.produce.delayed_produce import ManyProduce
from ottla.broker.produce.entries import (
    VALID_ACKS,
    Results,
    encode,
    find,
    is_transactional,
    last_entries,
    records_of,
    refused,
)
from ottla.broker.registry import Call
from ottla.coordinator.txn.transaction import Producer
from ottla.records.batch import BatchHeader, read_header
from ottla.replication.partition import EPOCH_PER_TRANSACTION_SINCE, Partition
from ottla.storage.producers.producer_state import Verification
from ottla.wire.produce import PartitionRecords, PartitionResult, ProduceRequest

_KNOWS_ABORTABLE: Final = 11
_WORTH_REPEATING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def produce_transactional(request: ProduceRequest, call: Call, weight: int) -> None:
    """Take in a request of `weight` bytes with at least one batch of a transaction."""
    TransactionalProduce(request, call, weight).start(request)


class TransactionalProduce:
    """One request while its batches are being asked about."""

    def __init__(self, request: ProduceRequest, call: Call, weight: int) -> None:
        purgatory = call.broker.purgatory
        answered = request.acks != 0
        deadline = purgatory.now() + request.timeout_ms / 1000 if answered else inf
        self._call = call
        self._acks = request.acks
        self._transactional_id = request.transactional_id
        self._results: Results = []
        self._waiting = ManyProduce(
            call.connection, purgatory, weight, deadline, partial(encode, call=call) if answered else None
        )
        self._open = 0

    def start(self, request: ProduceRequest) -> None:
        refusal = _refusal(request)
        asked: list[tuple[tuple[int, int], PartitionRecords, Partition, Promise[Verification | None]]] = []
        for key, entries in last_entries(request):
            made: list[PartitionResult] = []
            self._results.append((key, made))
            for entry in entries.items():
                place = (len(self._results) - 1, len(made))
                made.append(PartitionResult(entry[0]))
                if refusal is not None:
                    made[-1] = _told(entry, *refusal)
                    continue
                try:
                    partition = find(key, entry[0], self._call)
                    asked.append((place, entry, partition, self._ask(partition, records_of(entry))))
                except ApiError as error:
                    made[-1] = refused(entry, error, None)
        self._open = len(asked)
        if any(not promise.done for _, _, _, promise in asked):
            self._waiting.keep_place()
        for place, entry, partition, promise in asked:
            if not promise.done and entry[1] is not None:
                entry = (entry[0], memoryview(bytearray(entry[1])))  # noqa: PLW2901 - the frame will be gone
            promise.when_done(partial(self._append, place, entry, partition))
        if not asked:
            self._finish()

    def _ask(self, partition: Partition, records: memoryview) -> Promise[Verification | None]:
        if not is_transactional(records):
            return Promise.kept(None)
        header = read_header(records)
        version = self._call.api_version
        return self._call.broker.verifier.ask(
            self._transactional_id or "",
            Producer(header.producer_id, header.producer_epoch),
            TopicPartition(partition.topic, partition.index),
            header.base_sequence,
            add=version >= EPOCH_PER_TRANSACTION_SINCE,
            abortable=version >= _KNOWS_ABORTABLE,
        )

    def _append(
        self,
        place: tuple[int, int],
        entry: PartitionRecords,
        partition: Partition,
        guard: Verification | None,
        error: BaseException | None,
    ) -> None:
        if error is None:
            result = self._appended(place, entry, partition, guard)
        elif isinstance(error, ApiError):
            result = _unverified(entry, error.code)
        else:
            self._call.connection.close()
            raise error
        self._results[place[0]][1][place[1]] = result
        self._open -= 1
        if self._open == 0:
            self._finish()

    def _appended(
        self,
        place: tuple[int, int],
        entry: PartitionRecords,
        partition: Partition,
        guard: Verification | None,
    ) -> PartitionResult:
        call = self._call
        if self._acks not in VALID_ACKS:
            return _told(entry, ErrorCode.INVALID_REQUIRED_ACKS, None)
        try:
            appended = partition.append(
                records_of(entry), self._acks, call.broker.clock.now_ms(), call.api_version, guard
            )
        except ApiError as error:
            return refused(entry, error, partition)
        if not partition.wait_append(appended.last_offset + 1, self._acks, self._waiting.waiter(*place)):
            self._waiting.forget(*place)
        return PartitionResult(
            entry[0], 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset
        )

    def _finish(self) -> None:
        """Everything is appended or refused: wait for what is acknowledged."""
        failed = any(result.error_code for _, made in self._results for result in made)
        if failed and self._acks == 0:
            self._call.connection.close()
        else:
            self._waiting.start(self._results)


def _refusal(request: ProduceRequest) -> tuple[ErrorCode, str | None] | None:
    """Why no batch of the request can be taken, if so."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
    headers: list[BatchHeader] = [
        read_header(records)
        for _, entries in request.topics
        for _, records in entries
        if records is not None and is_transactional(records)
    ]
    if len({(header.producer_id, header.producer_epoch) for header in headers}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of transactions come from several producers"
    return None


def _unverified(entry: PartitionRecords, code: ErrorCode) -> PartitionResult:
    """What a producer is told when its coordinator did not vouch for a batch."""
    if code in _WORTH_REPEATING:
        text = f"the transaction could not be asked about this partition: {code.name}"
        return _told(entry, ErrorCode.NOT_ENOUGH_REPLICAS, text)
    unknown = code is ErrorCode.INVALID_TXN_STATE
    return _told(entry, code, "the transaction does not include this partition" if unknown else None)


def _told(entry: PartitionRecords, code: ErrorCode, message: str | None) -> PartitionResult:
    return PartitionResult(entry[0], code, error_message=message)

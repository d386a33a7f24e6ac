"""Pending Produce requests, between append and acknowledgement.

Most requests contain one batch for one partition: `SingleProduce` is waiter and pending response in one object.
`ManyProduce` collects the partitions of the others. Either completes once: when everything it waits for is
acknowledged or has failed, or when the timeout of the request expires. What is not acknowledged by then gets
REQUEST_TIMED_OUT; its batches stay in the log, as in Kafka. Errors after the append contain the base offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.net.outbox import PendingResponse
from ottla.wire.produce import PartitionResult, SingleResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.net.connection import Connection
    from ottla.broker.produce.appender import Appender, TopicResults
    from ottla.broker.purgatory import Purgatory
    from ottla.broker.registry import Call
    from ottla.replication.partition import Partition
    from ottla.storage.log.appended import Appended


class SingleProduce(PendingResponse):
    """One batch that waits for its acknowledgement."""

    __slots__ = (
        "_appended",
        "_appender",
        "_call",
        "_connection",
        "_key",
        "_partition",
        "_purgatory",
        "_response",
        "deadline",
    )

    def __init__(
        self,
        connection: Connection,
        purgatory: Purgatory,
        response: SingleResponse,
        weight: int,
        deadline: float,
        call: Call,
        key: bytes,
        appender: Appender,
    ) -> None:
        self.weight = weight
        self.buffers = None
        self.on_sent = None
        self.deadline = deadline
        self._connection = connection
        self._purgatory = purgatory
        self._response = response
        self._call = call
        self._key = key
        self._appender = appender

    def appended(self, partition: Partition, appended: Appended) -> None:
        self._partition = partition
        self._appended = appended
        self._connection.reserve(self, exclusive=False)
        self._purgatory.add(self)

    def append_done(self, error: ErrorCode) -> None:
        if self.buffers is not None:
            return
        self._purgatory.remove(self)
        self._complete(error)

    def expire(self) -> None:
        if self.buffers is None:
            self._complete(ErrorCode.REQUEST_TIMED_OUT)

    def _complete(self, error: ErrorCode) -> None:
        appended, index = self._appended, self._partition.index
        if error:
            log_start = self._partition.log.log_start_offset
            result = PartitionResult(
                index, error, appended.base_offset, appended.log_append_time_ms, log_start
            )
            response = self._appender.encode([(self._key, [result])], self._call)
        else:
            response = self._response.encode(
                self._call.correlation_id,
                index,
                appended.base_offset,
                appended.log_append_time_ms,
                self._partition.log.log_start_offset,
            )
            if self._call.throttle_ms:
                response = self._response.throttled(response, self._call.throttle_ms)
        self._connection.complete(self, (response,))
        self.buffers = (response,)


class ManyProduce(PendingResponse):
    """Several batches of one request that wait for their acknowledgements.

    `add` each partition, append its batch with its slot as the waiter or `set` its error there, then `start`.
    """

    __slots__ = (
        "_connection",
        "_encode",
        "_open",
        "_purgatory",
        "_reserved",
        "_started",
        "_topics",
        "deadline",
    )

    def __init__(
        self,
        connection: Connection,
        purgatory: Purgatory,
        weight: int,
        deadline: float,
        encode: Callable[[TopicResults], bytes] | None,
    ) -> None:
        """Without `encode` (acks=0) there is no response, and an error closes the connection."""
        super().__init__(weight)
        self.deadline = deadline
        self._connection = connection
        self._purgatory = purgatory
        self._encode = encode
        self._topics: TopicResults = []
        self._open: set[BatchSlot] = set()
        self._reserved = False
        self._started = False

    def add_topic(self, key: bytes) -> None:
        """Begin the results of a topic; `add` appends to it."""
        self._topics.append((key, []))

    def add(self, index: int) -> BatchSlot:
        """Add a partition to the last topic and return the slot of its batch."""
        results = self._topics[-1][1]
        results.append(PartitionResult(index))
        return BatchSlot(self, results, len(results) - 1)

    def reserve(self) -> None:
        """Reserve the slot of the response before all batches are appended; `start` follows later."""
        self._reserved = True
        self._connection.reserve(self, exclusive=False)

    def start(self) -> None:
        """All batches are appended or refused: wait for acknowledgements, or respond."""
        if self._encode is None and self._failed():
            self._connection.close()
            return
        self._started = True
        if not self._reserved:
            self.reserve()
        if self._open:
            self._purgatory.add(self)
        else:
            self._complete()

    def abort(self) -> None:
        """Close the connection after an unexpected exception."""
        self._connection.close()

    def wait(self, slot: BatchSlot) -> None:
        self._open.add(slot)

    def done(self, slot: BatchSlot, error: ErrorCode) -> None:
        """A batch is acknowledged or has failed, perhaps while the next one is being appended."""
        if slot not in self._open:
            return
        self._open.discard(slot)
        if error:
            slot.fail(error)
        if self._started and not self._open:
            self._purgatory.remove(self)
            self._complete()

    def expire(self) -> None:
        for slot in self._open:
            slot.fail(ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._complete()

    def _failed(self) -> bool:
        return any(result.error_code for _, results in self._topics for result in results)

    def _complete(self) -> None:
        if self._encode is not None:
            self._connection.complete(self, (self._encode(self._topics),))
        elif self._failed():
            self._connection.close()
        else:
            self._connection.complete(self, ())


class BatchSlot:
    """The result of one batch of a `ManyProduce`, and the waiter for its acknowledgement."""

    __slots__ = ("_position", "_request", "_results")

    def __init__(self, request: ManyProduce, results: list[PartitionResult], position: int) -> None:
        self._request = request
        self._results = results
        self._position = position

    def set(self, result: PartitionResult) -> None:
        self._results[self._position] = result

    def fail(self, error: ErrorCode) -> None:
        """Set the error of a batch that was appended."""
        self.set(self._results[self._position]._replace(error_code=error))

    def appended(self, partition: Partition, appended: Appended) -> None:
        self.set(
            PartitionResult(
                partition.index,
                0,
                appended.base_offset,
                appended.log_append_time_ms,
                partition.log.log_start_offset,
            )
        )
        self._request.wait(self)

    def append_done(self, error: ErrorCode) -> None:
        self._request.done(self, error)

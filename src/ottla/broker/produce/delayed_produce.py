"""Produce requests between append and acknowledgement.

Most requests carry one batch for one partition: `SingleProduce` is all they need, waiter and answer in one
object. `ManyProduce` gathers the partitions of the others. Either answers once: when everything it waits for
is acknowledged or has failed, or when its time is up (then REQUEST_TIMED_OUT for what is still open; the
batches stay in the log and may be acknowledged to nobody, as in Kafka).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.net.outbox import Answer
from ottla.wire.produce import PartitionResult, SingleResponse, encode_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.net.connection import Connection
    from ottla.broker.purgatory import Purgatory
    from ottla.replication.partition import Partition
    from ottla.storage.log.appended import Appended


class SingleProduce(Answer):
    """One batch on its way to being acknowledged."""

    __slots__ = (
        "_appended",
        "_connection",
        "_correlation_id",
        "_key",
        "_partition",
        "_purgatory",
        "_response",
        "_version",
        "deadline",
    )

    def __init__(
        self,
        connection: Connection,
        purgatory: Purgatory,
        response: SingleResponse,
        weight: int,
        deadline: float,
    ) -> None:
        self.weight = weight
        self.buffers = None
        self.when_sent = None
        self.deadline = deadline
        self._connection = connection
        self._purgatory = purgatory
        self._response = response

    def wait(
        self, partition: Partition, appended: Appended, correlation_id: int, version: int, key: bytes
    ) -> None:
        self._partition = partition
        self._appended = appended
        self._correlation_id = correlation_id
        self._version = version
        self._key = key
        self._connection.expect(self, exclusive=False)
        self._purgatory.add(self)

    def append_done(self, error: ErrorCode) -> None:
        if self.buffers is not None:
            return
        self._purgatory.remove(self)
        self._finish(error)

    def expire(self) -> None:
        if self.buffers is None:
            self._finish(ErrorCode.REQUEST_TIMED_OUT)

    def _finish(self, error: ErrorCode) -> None:
        appended, index = self._appended, self._partition.index
        if error:
            results = [(self._key, [PartitionResult(index, error)])]
            response = encode_response(self._version, self._correlation_id, results)
        else:
            response = self._response.encode(
                self._correlation_id,
                index,
                appended.base_offset,
                appended.log_append_time_ms,
                self._partition.log.log_start_offset,
            )
        self._connection.finish(self, (response,))
        self.buffers = (response,)


class ManyProduce(Answer):
    """Several batches of one request; `results` are filled in as they are known."""

    __slots__ = (
        "_connection",
        "_encode",
        "_errors",
        "_open",
        "_placed",
        "_purgatory",
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
        encode: Callable[[list[tuple[bytes, list[PartitionResult]]]], bytes] | None,
    ) -> None:
        """Without `encode` nobody is answered: a failure closes the connection."""
        super().__init__(weight)
        self.deadline = deadline
        self._connection = connection
        self._purgatory = purgatory
        self._encode = encode
        self._topics: list[tuple[bytes, list[PartitionResult]]] = []
        self._open: set[tuple[int, int]] = set()
        self._errors: dict[tuple[int, int], ErrorCode] = {}
        self._placed = False
        self._started = False

    def keep_place(self) -> None:
        """Take a place among the connection's answers before anything is known; `start` follows later."""
        self._placed = True
        self._connection.expect(self, exclusive=False)

    def start(self, topics: list[tuple[bytes, list[PartitionResult]]]) -> None:
        self._topics = topics
        self._started = True
        if not self._placed:
            self.keep_place()
        if self._open:
            self._purgatory.add(self)
        else:
            self._finish()

    def waiter(self, topic: int, slot: int) -> _PartitionWaiter:
        """Something to wait with for the result at (topic, slot)."""
        self._open.add((topic, slot))
        return _PartitionWaiter(self, topic, slot)

    def forget(self, topic: int, slot: int) -> None:
        self._open.discard((topic, slot))

    def done(self, topic: int, slot: int, error: ErrorCode) -> None:
        """A batch is acknowledged or has failed; the latter perhaps while the next one is being appended."""
        if (topic, slot) not in self._open:
            return
        self._open.discard((topic, slot))
        if error:
            self._errors[topic, slot] = error
        if self._started and not self._open:
            self._purgatory.remove(self)
            self._finish()

    def expire(self) -> None:
        self._errors |= dict.fromkeys(self._open, ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._finish()

    def _finish(self) -> None:
        for (topic, slot), error in self._errors.items():
            results = self._topics[topic][1]
            results[slot] = PartitionResult(results[slot].partition, error)
        if self._encode is not None:
            self._connection.finish(self, (self._encode(self._topics),))
        elif any(result.error_code for _, results in self._topics for result in results):
            self._connection.close()
        else:
            self._connection.finish(self, ())


class _PartitionWaiter:
    __slots__ = ("_produce", "_slot", "_topic")

    def __init__(self, produce: ManyProduce, topic: int, slot: int) -> None:
        self._produce = produce
        self._topic = topic
        self._slot = slot

    def append_done(self, error: ErrorCode) -> None:
        self._produce.done(self._topic, self._slot, error)

"""The short way for a producer that sends like requests to one partition, one after another.

A connection remembers the shape of its last ordinary produce request (`run_reference` says what that is). While
requests of the same shape follow, all that have arrived are taken together: scanned, stamped and copied in one
call, appended as one run, answered as one. What does not fit is left for the ordinary way
(`handlers.k00_produce`), which alone refuses and explains.

Concurrency: the event loop only, as everything of a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.base import native
from ottla.base.errors import ErrorCode
from ottla.base.varint import uvarint_bytes
from ottla.broker.net.outbox import PendingResponse
from ottla.broker.produce import run_reference
from ottla.storage.log.staged_run import StagedRun
from ottla.wire.produce import FIRST_FLEXIBLE, PartitionResult, SingleResponse, encode_response

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.broker.net.connection import Connection
    from ottla.broker.purgatory import Purgatory
    from ottla.replication.partition import Partition
    from ottla.wire.frame_reader import FrameReader

scan_run: Callable[..., run_reference.Scanned | None] = run_reference.scan_run
if native.WANTED:
    with suppress(ImportError):
        from ottla.broker.produce._run import scan_run


class ProduceLane:
    """What one connection remembers; `take` is its use."""

    __slots__ = (
        "_acks",
        "_clock",
        "_flexible",
        "_key",
        "_log_start",
        "_offset_at",
        "_partition",
        "_purgatory",
        "_response",
        "_shape",
        "_template",
        "_timeout_s",
        "_version",
    )

    def __init__(
        self,
        clock: Clock,
        purgatory: Purgatory,
        partition: Partition,
        key: bytes,
        shape: bytes,
        *,
        version: int,
        acks: int,
        timeout_ms: int,
    ) -> None:
        self._clock = clock
        self._purgatory = purgatory
        self._version = version
        self._flexible = version >= FIRST_FLEXIBLE
        self._shape = shape
        self._key = key
        self._partition = partition
        self._acks = acks
        self._timeout_s = timeout_ms / 1000
        self._response = SingleResponse(version, key)
        self._log_start = -1
        self._template = b""
        self._offset_at = self._response.base_offset_at

    def take(self, connection: Connection, reader: FrameReader) -> bool:
        """Take the run at the head of what was received; False if there is none."""
        partition = self._partition
        room = partition.run_room(self._acks, self._clock.now_ms())
        if room is None:
            return False
        if self._log_start != partition.log.log_start_offset:
            self._log_start = partition.log.log_start_offset
            self._template = self._response.encode(0, partition.index, 0, -1, self._log_start)
        view, position, end = reader.received_frames()
        found = scan_run(
            view, position, end, self._shape, self._flexible, self._template, self._offset_at, room
        )
        if found is None:
            return False
        reader.advance(found[0])
        partition.append_run(StagedRun._make(found[2:8]))
        purgatory = self._purgatory
        pending = RunProduce(connection, self, found[8], len(found[2]), purgatory.now() + self._timeout_s)
        connection.reserve(pending, exclusive=False)
        purgatory.add(pending)
        partition.wait_append(found[3], self._acks, pending)
        return True

    def done(self, request: RunProduce) -> None:
        self._purgatory.remove(request)

    def refuse(self, answers: bytearray, error: ErrorCode) -> bytes:
        """The answers to all requests of a run that failed; the good answers tell their correlation ids."""
        result = [(self._key, [PartitionResult(self._partition.index, error)])]
        ids = range(4, len(answers), len(self._template))
        return b"".join(
            encode_response(self._version, int.from_bytes(answers[at : at + 4], "big", signed=True), result)
            for at in ids
        )


class RunProduce(PendingResponse):
    """A run on its way to being acknowledged."""

    __slots__ = ("_answers", "_connection", "_lane", "deadline")

    def __init__(
        self, connection: Connection, lane: ProduceLane, answers: bytearray, weight: int, deadline: float
    ) -> None:
        super().__init__(weight)
        self.deadline = deadline
        self._connection = connection
        self._lane = lane
        self._answers = answers

    def append_done(self, error: ErrorCode) -> None:
        if self.buffers is None:
            self._lane.done(self)
            self._finish(error)

    def expire(self) -> None:
        if self.buffers is None:
            self._finish(ErrorCode.REQUEST_TIMED_OUT)

    def _finish(self, error: ErrorCode) -> None:
        answers = self._lane.refuse(self._answers, error) if error else memoryview(self._answers)
        self._connection.complete(self, (answers,))
        self.buffers = (answers,)


def shape_of(frame: memoryview, records: memoryview, version: int) -> bytes | None:
    """The shape of a produce frame with one batch; None if it has tagged fields behind the batch."""
    size = len(records)
    if version >= FIRST_FLEXIBLE:
        if any(frame[-3:]):
            return None
        end = len(frame) - 3 - size - uvarint_bytes(size + 1)
    else:
        end = len(frame) - size - 4
    return bytes(frame[:4]) + bytes(frame[8:end])

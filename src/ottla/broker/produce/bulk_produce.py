"""The bulk paths for a producer that sends similar requests, again and again, to some partitions.

A connection stores the shapes of its normal Produce requests (see `bulk_reference`), one for each partition. Requests
of one shape that have been received one behind the other are taken together: one call scans and copies them, one bulk
append stages them, one pending response completes them. What does not fit is left to the normal path
(`handlers.k00_produce`), which alone refuses requests. The bulk paths end when a right of the client may have changed,
and the normal path checks it.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.base import native
from ottla.base.errors import ErrorCode
from ottla.base.varint import uvarint_bytes
from ottla.broker.net.outbox import PendingResponse
from ottla.broker.produce import bulk_reference
from ottla.storage.log.bulk_append import BulkAppend
from ottla.wire.frames import SIZE
from ottla.wire.produce import FIRST_FLEXIBLE, PartitionResult, SingleResponse

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.broker.net.connection import Connection
    from ottla.broker.produce.appender import Appender
    from ottla.broker.purgatory import Purgatory
    from ottla.broker.quotas import Quotas
    from ottla.broker.registry import Call
    from ottla.replication.partition import Partition
    from ottla.wire.frame_reader import FrameReader

scan_bulk: Callable[..., bulk_reference.Scanned | None] = bulk_reference.scan_bulk
if native.WANTED:
    with suppress(ImportError):
        from ottla.broker.produce._bulk import scan_bulk

_CORRELATION_ID: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_THROTTLE_TIME: Final = Struct(">i")
_PARTITIONS_MAX: Final = 64
"""A connection has bulk paths to so many partitions at most."""


class BulkPaths:
    """The bulk paths of one connection, by the shapes of their requests, which have the same length."""

    __slots__ = ("_by_shape", "_produced", "_shape_bytes")

    def __init__(self) -> None:
        self._produced: set[Partition] = set()
        self._by_shape: dict[bytes, BulkPath] = {}
        self._shape_bytes = 0

    def produced(self, partition: Partition) -> bool:
        """A request for a partition took the normal path; returns whether another one did before."""
        if partition in self._produced:
            return True
        if len(self._produced) == _PARTITIONS_MAX:
            self._produced.clear()
            self._by_shape.clear()
        self._produced.add(partition)
        return False

    def add(self, shape: bytes, path: BulkPath) -> None:
        """Take the requests of a shape from now on."""
        if len(shape) != self._shape_bytes:
            self._by_shape.clear()
            self._shape_bytes = len(shape)
        self._by_shape[shape] = path

    def take_frames(self, connection: Connection, reader: FrameReader) -> bool:
        """Append the received requests that fit; False if the next one does not."""
        view, position, _ = reader.received_frames()
        position += SIZE.size
        # A shape does not contain the correlation id, which follows API key and version.
        shape = bytes(view[position : position + 4]) + bytes(
            view[position + 8 : position + 4 + self._shape_bytes]
        )
        path = self._by_shape.get(shape)
        return path is not None and path.take_frames(connection, reader)


class BulkPath:
    """The bulk path of one connection to one partition."""

    __slots__ = (
        "_acks",
        "_appender",
        "_authorization",
        "_authorized_at",
        "_call",
        "_clock",
        "_flexible",
        "_key",
        "_log_start",
        "_offset_at",
        "_partition",
        "_purgatory",
        "_quotas",
        "_response",
        "_shape",
        "_template",
        "_timeout_s",
    )

    def __init__(
        self,
        clock: Clock,
        purgatory: Purgatory,
        partition: Partition,
        key: bytes,
        shape: bytes,
        *,
        call: Call,
        appender: Appender,
        quotas: Quotas,
        acks: int,
        timeout_ms: int,
    ) -> None:
        self._clock = clock
        self._quotas = quotas
        self._purgatory = purgatory
        self._call = call
        self._appender = appender
        self._authorization = appender.authorization
        self._authorized_at = appender.authorization.epoch
        self._flexible = call.api_version >= FIRST_FLEXIBLE
        self._shape = shape
        self._key = key
        self._partition = partition
        self._acks = acks
        self._timeout_s = timeout_ms / 1000
        self._response = SingleResponse(call.api_version, key)
        self._log_start = -1
        self._template = b""
        self._offset_at = self._response.base_offset_at

    def take_frames(self, connection: Connection, reader: FrameReader) -> bool:
        """Append the received requests that fit; False if the next one does not."""
        if self._authorized_at != self._authorization.epoch:
            connection.bulk_paths = None
            return False
        partition = self._partition
        limits = partition.bulk_limits(self._acks, self._clock.now_ms())
        if limits is None:
            return False
        if self._log_start != partition.log.log_start_offset:
            self._log_start = partition.log.log_start_offset
            self._template = self._response.encode(0, partition.index, 0, -1, self._log_start)
        view, position, end = reader.received_frames()
        found = scan_bulk(
            view, position, end, self._shape, self._flexible, self._template, self._offset_at, limits
        )
        if found is None:
            return False
        quota = self._quotas.produce
        if quota is not None:
            self._throttle(found[8], quota.charge(connection, self._call, found[0] - position))
        reader.advance(found[0])
        partition.append_bulk(BulkAppend._make(found[2:8]), found[1])
        purgatory = self._purgatory
        pending = BulkProduce(connection, self, found[8], len(found[2]), purgatory.now() + self._timeout_s)
        connection.reserve(pending, exclusive=False)
        purgatory.add(pending)
        partition.wait_append(found[3], self._acks, pending)
        return True

    def _throttle(self, responses: bytearray, throttle_ms: int) -> None:
        """Set the throttle time of all responses."""
        if throttle_ms:
            size = len(self._template)
            at = self._response.throttle_at
            for end in range(size, len(responses) + 1, size):
                _THROTTLE_TIME.pack_into(responses, end + at, throttle_ms)

    def done(self, request: BulkProduce) -> None:
        self._purgatory.remove(request)

    def encode_error(self, responses: bytearray, error: ErrorCode) -> bytes:
        """Return error responses for all requests; the successful `responses` have their ids and offsets."""
        encoded = []
        for at in range(0, len(responses), len(self._template)):
            (base_offset,) = _OFFSET.unpack_from(responses, at + self._offset_at)
            result = PartitionResult(self._partition.index, error, base_offset, -1, self._log_start)
            call = copy(self._call)
            (call.correlation_id,) = _CORRELATION_ID.unpack_from(responses, at + 4)
            encoded.append(self._appender.encode([(self._key, [result])], call))
        return b"".join(encoded)


class BulkProduce(PendingResponse):
    """A bulk append that waits for its acknowledgement."""

    __slots__ = ("_connection", "_path", "_responses", "deadline")

    def __init__(
        self, connection: Connection, path: BulkPath, responses: bytearray, weight: int, deadline: float
    ) -> None:
        super().__init__(weight)
        self.deadline = deadline
        self._connection = connection
        self._path = path
        self._responses = responses

    def append_done(self, error: ErrorCode) -> None:
        if self.buffers is None:
            self._path.done(self)
            self._complete(error)

    def expire(self) -> None:
        if self.buffers is None:
            self._complete(ErrorCode.REQUEST_TIMED_OUT)

    def _complete(self, error: ErrorCode) -> None:
        sent = self._path.encode_error(self._responses, error) if error else memoryview(self._responses)
        self._connection.complete(self, (sent,))
        self.buffers = (sent,)


def shape_of(frame: memoryview, records: memoryview, version: int) -> bytes | None:
    """Return the shape of a Produce frame with one batch; None if tagged fields follow the batch."""
    size = len(records)
    if version >= FIRST_FLEXIBLE:
        if any(frame[-3:]):
            return None
        end = len(frame) - 3 - size - uvarint_bytes(size + 1)
    else:
        end = len(frame) - size - 4
    return bytes(frame[:4]) + bytes(frame[8:end])

"""Hand-written decoder of Fetch responses, versions 16-18, as a follower receives them. Records are not copied.

Tests compare it with `wire.messages.fetch`. The encoder is in `wire.fetch`.
"""

from __future__ import annotations

from struct import Struct, error

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import read_uvarint
from ottla.wire.primitives import skip_tags

# throttle time, error code, session id
_TOP = Struct(">ihi")
# index, error code, high watermark, last stable offset, log start offset
_DATA = Struct(">ihqqq")
# A response with one partition, up to the length of its records: the top, one topic, its id, one partition, its data,
# aborted transactions (none), preferred replica.
_ONE_PARTITION = Struct(">ihiB16sBihqqqBi")
_AFTER_ONE = b"\0\0\0"
_DIVERGING = Struct(">iq")
_DIVERGING_TAG = 0
_ABORTED_BYTES = 17
_PREFERRED_REPLICA_BYTES = 4
_UUID_BYTES = 16


class FetchedPartition:
    """What a response has for one partition."""

    __slots__ = (
        "diverging",
        "error_code",
        "high_watermark",
        "log_start_offset",
        "partition",
        "records",
        "topic_id",
    )

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        error_code: int,
        high_watermark: int,
        log_start_offset: int,
        diverging: tuple[int, int] | None,
        records: memoryview,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.diverging = diverging
        """(epoch, end offset) if the log of the follower diverges."""
        self.records = records


class FetchedResponse:
    """A decoded response."""

    __slots__ = ("error_code", "partitions", "session_id")

    def __init__(self, error_code: int, session_id: int, partitions: list[FetchedPartition]) -> None:
        self.error_code = error_code
        self.session_id = session_id
        self.partitions = partitions


def parse_response(frame: memoryview, position: int) -> FetchedResponse:
    """Decode the body that starts at `position`. Node endpoints and hints about leaders are skipped."""
    try:
        return _parse_one(frame, position) or _parse(frame, position)
    except (IndexError, error) as cause:
        raise RemoteProtocolError("fetch response ends too early") from cause


def _parse_one(frame: memoryview, position: int) -> FetchedResponse | None:
    """The response with one partition and without tagged fields, as most are; None if it is another one."""
    at = position + _ONE_PARTITION.size
    if at >= len(frame):
        return None
    (
        _,
        error_code,
        session_id,
        topics,
        topic_id,
        partitions,
        index,
        code,
        high_watermark,
        _,
        log_start,
        aborted,
        _,
    ) = _ONE_PARTITION.unpack_from(frame, position)
    if topics != 2 or partitions != 2 or aborted > 1:
        return None
    size, at = read_uvarint(frame, at)
    end = at + max(0, size - 1)
    if frame[end:] != _AFTER_ONE:
        return None
    found = FetchedPartition(topic_id, index, code, high_watermark, log_start, None, frame[at:end])
    return FetchedResponse(error_code, session_id, [found])


def _parse(frame: memoryview, position: int) -> FetchedResponse:
    _, error_code, session_id = _TOP.unpack_from(frame, position)
    topics, position = _count(frame, position + _TOP.size)
    partitions: list[FetchedPartition] = []
    for _ in range(topics):
        topic_id = bytes(frame[position : position + _UUID_BYTES])
        count, position = _count(frame, position + _UUID_BYTES)
        for _ in range(count):
            index, code, high_watermark, _, log_start = _DATA.unpack_from(frame, position)
            aborted, position = _count(frame, position + _DATA.size)
            position += _ABORTED_BYTES * max(0, aborted) + _PREFERRED_REPLICA_BYTES
            size, position = _count(frame, position)
            end = position + max(0, size)
            if end >= len(frame):
                raise RemoteProtocolError("records are longer than the response")
            records = frame[position:end]
            diverging = None
            if frame[end]:
                diverging, position = _diverging(frame, end)
            else:
                position = end + 1
            partitions.append(
                FetchedPartition(topic_id, index, code, high_watermark, log_start, diverging, records)
            )
        position = skip_tags(frame, position)
    return FetchedResponse(error_code, session_id, partitions)


def _count(frame: memoryview, position: int) -> tuple[int, int]:
    """A compact length; -1 for null."""
    count, position = read_uvarint(frame, position)
    return count - 1, position


def _diverging(frame: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    """The diverging epoch among the tagged fields of a partition."""
    diverging = None
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == _DIVERGING_TAG:
            diverging = _DIVERGING.unpack_from(frame, position)
        position += size
        if position > len(frame):
            raise RemoteProtocolError("a tagged field is longer than the response")
    return diverging, position

"""Hand-written codec of Fetch: decodes requests in one pass, encodes responses without copying records.

Versions 4-18. Session fields from 7, leader epochs from 9, rack from 11, flexible from 12 (with diverging epoch and
leader hint as tags), topic ids instead of names from 13, the replica's id moves into a tag in 15, node endpoints
from 16. Tests compare it byte for byte with `wire.messages.fetch`.

A response is a list of buffers for one `sendmsg`: encoded headers alternate with the record bytes from the file. As
in `wire.produce`, a topic is identified by its encoded bytes, and the number of entries of a request is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Any, Final, NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import encode_uvarint, read_uvarint
from ottla.wire.frames import SIZE_AND_CORRELATION_ID
from ottla.wire.primitives import skip_tags
from ottla.wire.produce import NodeEndpoint, encode_endpoints

FIRST_FLEXIBLE: Final = 12
FIRST_TOPIC_IDS: Final = 13
FIRST_SESSIONS: Final = 7

_I16 = Struct(">h")
_I32 = Struct(">i")
_REPLICA_STATE = Struct(">iq")
_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_TOP = Struct(">ihi")
_ABORTED = Struct(">qq")
# Far more partitions than a consumer fetches; an entry has at least 16 bytes.
_ENTRIES_MAX = 100_000

# partition, current leader epoch (9+), fetch offset, last fetched epoch (12+), log start (5+), max bytes
_ENTRY_V4 = Struct(">iqi")
_ENTRY_V5 = Struct(">iqqi")
_ENTRY_V9 = Struct(">iiqqi")
_ENTRY_V12 = Struct(">iiqiqi")

# The body of nearly all requests of followers (15+): one partition, no tagged field but the state of the replica.
# Limits, session, one topic, its id, one partition, its entry, the lengths of what follows, replica id and epoch.
_ONE_PARTITION = Struct(">iiibiic16sciiqiqi7siqc")
_ONE = b"\x02"
_AFTER_ONE = b"\0\0\1\1\1\1\x0d"
_FIRST_REPLICA_STATE = 15

# index, error, high watermark, last stable offset, log start offset (5+)
_DATA_V4 = Struct(">ihqq")
_DATA_V5 = Struct(">ihqqq")
# A response with one partition (13+), up to the length of its records: size, correlation id, no tags, throttle time,
# error, session, one topic, its id, one partition, its data, aborted transactions (none), preferred replica.
_ONE_DATA = Struct(">iixihiB16sBihqqqBi")
_AFTER_ONE_DATA = b"\0\0\0"


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchRequest(NamedTuple):
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[FetchPartition]]]
    forgotten: list[tuple[bytes, list[int]]]
    rack: str
    replica_epoch: int = -1
    """The broker epoch of a replica (15+); -1 if the request has none."""


Records = Any
"""Bytes, or another object with a length that the sender of the response can send."""


class PartitionData:
    """One partition of a response. The defaults are those of an error."""

    __slots__ = (
        "aborted",
        "current_leader",
        "diverging",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        index: int,
        error_code: int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Records = b"",
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted: Sequence[tuple[int, int]] | None = None
        self.diverging: tuple[int, int] | None = None
        self.current_leader: tuple[int, int] | None = None
        self.preferred_read_replica = -1


def parse_request(frame: memoryview, position: int, version: int) -> FetchRequest:
    """Decode the body that starts at `position`."""
    if version >= _FIRST_REPLICA_STATE and len(frame) - position == _ONE_PARTITION.size:
        request = _one_partition(frame, position)
        if request is not None:
            return request
    try:
        return _Reader(frame, version).request(position)
    except (IndexError, error) as cause:
        raise RemoteProtocolError("fetch request ends too early") from cause


def _one_partition(frame: memoryview, position: int) -> FetchRequest | None:
    """The request of a follower for one partition; None if it is another one of the same length."""
    found = _ONE_PARTITION.unpack_from(frame, position)
    if (found[6], found[8], found[15], found[18]) != (_ONE, _ONE, _AFTER_ONE, b"\0"):
        return None
    topics = [(found[7], [FetchPartition._make(found[9:15])])]
    return FetchRequest._make((found[16], *found[:6], topics, [], "", found[17]))


def encode_one_partition(
    limits: tuple[int, int, int],
    session: tuple[int, int],
    topic_id: bytes,
    wanted: FetchPartition,
    replica: tuple[int, int],
) -> bytes:
    """Encode the request of a follower for one partition (15+).

    `limits` are the longest wait, the fewest and the most bytes; `session` and `replica` are an id and an epoch.
    """
    return _ONE_PARTITION.pack(
        *limits, 0, *session, _ONE, topic_id, _ONE, *wanted, _AFTER_ONE, *replica, b"\0"
    )


class _Reader:
    """Decoder of one request, with the differences between versions."""

    def __init__(self, frame: memoryview, version: int) -> None:
        self.frame = frame
        self.version = version
        self.flexible = version >= FIRST_FLEXIBLE
        self.entries_left = _ENTRIES_MAX

    def request(self, position: int) -> FetchRequest:
        frame, version = self.frame, self.version
        replica_id = replica_epoch = -1
        if version < 15:
            (replica_id,) = _I32.unpack_from(frame, position)
            position += 4
        max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, position)
        position += _LIMITS.size
        session_id, session_epoch = 0, -1
        if version >= FIRST_SESSIONS:
            session_id, session_epoch = _SESSION.unpack_from(frame, position)
            position += _SESSION.size
        topics, position = self._topics(position)
        forgotten: list[tuple[bytes, list[int]]] = []
        if version >= FIRST_SESSIONS:
            forgotten, position = self._forgotten(position)
        rack = b""
        if version >= 11:
            rack, position = self._string(position)
        if self.flexible:
            replica_id, replica_epoch = self._replica_tag(position, replica_id)
        return FetchRequest(
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten,
            rack.decode("utf-8", "replace"),
            replica_epoch,
        )

    def _topics(self, position: int) -> tuple[list[tuple[bytes, list[FetchPartition]]], int]:
        read = {4: self._entries_v4, 5: self._entries_v5, 9: self._entries_v9, 12: self._entries_v12}
        version = self.version
        entries = read[12 if version >= 12 else 9 if version >= 9 else 5 if version >= 5 else 4]
        count, position = self._count(position)
        topics = []
        for _ in range(count):
            key, position = self._topic(position)
            partition_count, position = self._count(position)
            partitions, position = entries(position, partition_count)
            if self.flexible:
                position = skip_tags(self.frame, position)
            topics.append((key, partitions))
        return topics, position

    def _entries_v4(self, position: int, count: int) -> tuple[list[FetchPartition], int]:
        out = []
        for _ in range(count):
            index, offset, max_bytes = _ENTRY_V4.unpack_from(self.frame, position)
            position += _ENTRY_V4.size
            out.append(FetchPartition(index, -1, offset, -1, -1, max_bytes))
        return out, position

    def _entries_v5(self, position: int, count: int) -> tuple[list[FetchPartition], int]:
        out = []
        for _ in range(count):
            index, offset, log_start, max_bytes = _ENTRY_V5.unpack_from(self.frame, position)
            position += _ENTRY_V5.size
            out.append(FetchPartition(index, -1, offset, -1, log_start, max_bytes))
        return out, position

    def _entries_v9(self, position: int, count: int) -> tuple[list[FetchPartition], int]:
        out = []
        for _ in range(count):
            index, epoch, offset, log_start, max_bytes = _ENTRY_V9.unpack_from(self.frame, position)
            position += _ENTRY_V9.size
            out.append(FetchPartition(index, epoch, offset, -1, log_start, max_bytes))
        return out, position

    def _entries_v12(self, position: int, count: int) -> tuple[list[FetchPartition], int]:
        frame, out = self.frame, []
        for _ in range(count):
            out.append(FetchPartition._make(_ENTRY_V12.unpack_from(frame, position)))
            position += _ENTRY_V12.size
            # The tagged fields (replica directory, high watermark of the follower) are used by replicas only.
            position = position + 1 if not frame[position] else skip_tags(frame, position)
        return out, position

    def _forgotten(self, position: int) -> tuple[list[tuple[bytes, list[int]]], int]:
        count, position = self._count(position)
        forgotten = []
        for _ in range(count):
            key, position = self._topic(position)
            partition_count, position = self._count(position)
            indexes = list(Struct(f">{partition_count}i").unpack_from(self.frame, position))
            position += 4 * partition_count
            if self.flexible:
                position = skip_tags(self.frame, position)
            forgotten.append((key, indexes))
        return forgotten, position

    def _replica_tag(self, position: int, replica_id: int) -> tuple[int, int]:
        """Tag 1 (15+) has replica id and broker epoch. Tag 0, the cluster id, is used by the quorum only."""
        frame, epoch = self.frame, -1
        count, position = read_uvarint(frame, position)
        for _ in range(count):
            tag, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            if not 0 <= size <= len(frame) - position:
                raise RemoteProtocolError("a tagged field is longer than the request")
            if tag == 1 and self.version >= 15:
                replica_id, epoch = _REPLICA_STATE.unpack_from(frame, position)
            position += size
        return replica_id, epoch

    def _count(self, position: int) -> tuple[int, int]:
        if self.flexible:
            count, position = read_uvarint(self.frame, position)
            count -= 1
        else:
            (count,) = _I32.unpack_from(self.frame, position)
            position += 4
        if count < 0:
            raise RemoteProtocolError("an array must not be null")
        self.entries_left -= count
        if self.entries_left < 0:
            raise RemoteProtocolError("the request has too many entries")
        return count, position

    def _topic(self, position: int) -> tuple[bytes, int]:
        if self.version < FIRST_TOPIC_IDS:
            return self._string(position)
        if position + 16 > len(self.frame):
            raise RemoteProtocolError("a topic id is longer than the request")
        return bytes(self.frame[position : position + 16]), position + 16

    def _string(self, position: int) -> tuple[bytes, int]:
        if self.flexible:
            length, position = read_uvarint(self.frame, position)
            length -= 1
        else:
            (length,) = _I16.unpack_from(self.frame, position)
            position += 2
        if length < 0 or position + length > len(self.frame):
            raise RemoteProtocolError("a string is null or longer than the request")
        return bytes(self.frame[position : position + length]), position + length


TopicData = tuple[bytes, Sequence[PartitionData]]


def encode_response(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[TopicData],
    endpoints: Sequence[NodeEndpoint] = (),
    *,
    throttle_ms: int = 0,
) -> list[Records]:
    """Encode a response frame as buffers to send one after the other. Records are not copied."""
    if len(topics) == 1 and version >= FIRST_TOPIC_IDS and not endpoints and len(topics[0][1]) == 1:
        key, (data,) = topics[0]
        if not data.aborted and data.diverging is None and data.current_leader is None:
            return _one_partition_response(key, data, correlation_id, throttle_ms, error_code, session_id)
    flexible = version >= FIRST_FLEXIBLE
    packed = bytearray(8)
    if flexible:
        packed += b"\0"
    packed += (
        _TOP.pack(throttle_ms, error_code, session_id)
        if version >= FIRST_SESSIONS
        else _I32.pack(throttle_ms)
    )
    packed += _length(len(topics), flexible)
    buffers: list[Records] = []
    total = 0
    for key, partitions in topics:
        if version >= FIRST_TOPIC_IDS:
            packed += key
        elif flexible:
            packed += encode_uvarint(len(key) + 1) + key
        else:
            packed += _I16.pack(len(key)) + key
        packed += _length(len(partitions), flexible)
        for data in partitions:
            _pack_partition(packed, data, version)
            records = data.records
            if len(records):
                buffers += (bytes(packed), records)
                total += len(packed) + len(records)
                packed = bytearray()
            if flexible:
                packed += _tags(data)
        if flexible:
            packed += b"\0"
    if flexible:
        packed += encode_endpoints(endpoints) if endpoints and version >= 16 else b"\0"
    buffers.append(bytes(packed))
    total += len(packed)
    first = buffers[0]
    buffers[0] = SIZE_AND_CORRELATION_ID.pack(total - 4, correlation_id) + first[8:]
    return buffers


def _one_partition_response(
    key: bytes,
    data: PartitionData,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
) -> list[Records]:
    """The response with one partition that has no aborted transactions and no tagged fields (13+)."""
    records = data.records
    size = len(records)
    length = encode_uvarint(size + 1)
    head = _ONE_DATA.pack(
        _ONE_DATA.size - 4 + len(length) + size + len(_AFTER_ONE_DATA),
        correlation_id,
        throttle_ms,
        error_code,
        session_id,
        2,
        key,
        2,
        data.index,
        data.error_code,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        data.aborted is not None,
        data.preferred_read_replica,
    )
    if not size:
        return [head + length + _AFTER_ONE_DATA]
    return [head + length, records, _AFTER_ONE_DATA]


def _pack_partition(packed: bytearray, data: PartitionData, version: int) -> None:
    """Encode a partition up to and including the length of its records."""
    if version >= 5:
        packed += _DATA_V5.pack(
            data.index, data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset
        )
    else:
        packed += _DATA_V4.pack(data.index, data.error_code, data.high_watermark, data.last_stable_offset)
    flexible = version >= FIRST_FLEXIBLE
    if data.aborted is None:
        packed += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        packed += _length(len(data.aborted), flexible)
        for producer_id, first_offset in data.aborted:
            packed += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                packed += b"\0"
    if version >= 11:
        preferred = data.preferred_read_replica
        packed += b"\xff\xff\xff\xff" if preferred < 0 else _I32.pack(preferred)
    size = len(data.records)
    packed += encode_uvarint(size + 1) if flexible else _I32.pack(size)


def _tags(data: PartitionData) -> bytes:
    if data.diverging is None and data.current_leader is None:
        return b"\0"
    fields = []
    if data.diverging is not None:
        fields.append(b"\x00\x0d" + Struct(">iqB").pack(*data.diverging, 0))
    if data.current_leader is not None:
        fields.append(b"\x01\x09" + Struct(">iiB").pack(*data.current_leader, 0))
    return bytes((len(fields),)) + b"".join(fields)


def _length(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _I32.pack(count)

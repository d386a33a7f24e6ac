"""Hand-written codec of Produce: decodes requests without copying batches, encodes responses in one call.

Versions 3-13. Flexible (compact lengths, tagged fields) from 9, `CurrentLeader` and `NodeEndpoints` from 10,
topic ids instead of names from 13. Tests compare it byte for byte with `wire.messages.produce`.

Request   [transactional_id] acks:i16 timeout_ms:i32 [topics: name|id [partitions: index:i32 records]]
Response  [topics: name|id [partitions: index:i32 error:i16 base_offset:i64 log_append_time:i64
          log_start_offset:i64(5+) record_errors(8+) error_message(8+) {current_leader}(10+)]]
          throttle_time_ms:i32 {node_endpoints}(10+)

A topic is identified by its encoded bytes (UTF-8 name, or 16 bytes of the id): one dictionary lookup finds it without
decoding. A request that announces more entries than its size allows is rejected before memory is allocated for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import encode_uvarint, read_uvarint
from ottla.wire.frames import SIZE_AND_CORRELATION_ID
from ottla.wire.primitives import skip_tags

FIRST_FLEXIBLE: Final = 9
FIRST_TOPIC_IDS: Final = 13
FIRST_LEADER_HINTS: Final = 10

_I16 = Struct(">h")
_I32 = Struct(">i")
_INDEX_AND_SIZE = Struct(">ii")
_ACKS_TIMEOUT = Struct(">hi")
_ENTRY_V3 = Struct(">ihqq")
_ENTRY = Struct(">ihqqq")
_LEADER = Struct(">BBBiiB")
# Entries that a request may have in addition to one per minimal batch: memory stays proportional to its size.
_SPARE_ENTRIES = 10_000
_BATCH_BYTES_MIN = 61

PartitionRecords = tuple[int, memoryview | None]
TopicRecords = tuple[bytes, list[PartitionRecords]]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


class PartitionResult(NamedTuple):
    """Result of one partition."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


class NodeEndpoint(NamedTuple):
    """Address of a broker named in `current_leader`."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


TopicResult = tuple[bytes, Sequence[PartitionResult]]


def parse_request(frame: memoryview, position: int, version: int) -> ProduceRequest:
    """Decode the body that starts at `position`. The batches are views of `frame`."""
    try:
        if version < FIRST_FLEXIBLE:
            return _parse_plain(frame, position)
        return _parse_flexible(frame, position, version)
    except (IndexError, error) as cause:
        raise RemoteProtocolError("produce request ends too early") from cause


def _entries_max(frame: memoryview) -> int:
    return _SPARE_ENTRIES + len(frame) // _BATCH_BYTES_MIN


def _parse_plain(frame: memoryview, position: int) -> ProduceRequest:
    end = len(frame)
    (length,) = _I16.unpack_from(frame, position)
    position += 2
    transactional_id = None
    if length >= 0:
        transactional_id = _text(frame, position, length)
        position += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    (topic_count,) = _I32.unpack_from(frame, position + 6)
    position += 10
    left = _entries_max(frame)
    topics: list[TopicRecords] = []
    _check_count(topic_count, left)
    for _ in range(topic_count):
        (length,) = _I16.unpack_from(frame, position)
        position += 2
        key = _key(frame, position, length)
        position += length
        (count,) = _I32.unpack_from(frame, position)
        position += 4
        left -= count + 1
        _check_count(count, left)
        partitions: list[PartitionRecords] = []
        for _ in range(count):
            index, size = _INDEX_AND_SIZE.unpack_from(frame, position)
            position += 8
            if size < 0:
                partitions.append((index, None))
                continue
            if position + size > end:
                raise RemoteProtocolError("records are longer than the request")
            partitions.append((index, frame[position : position + size]))
            position += size
        topics.append((key, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _parse_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    end = len(frame)
    by_id = version >= FIRST_TOPIC_IDS
    length, position = read_uvarint(frame, position)
    transactional_id = None
    if length:
        transactional_id = _text(frame, position, length - 1)
        position += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topic_count, position = read_uvarint(frame, position + 6)
    left = _entries_max(frame)
    topics: list[TopicRecords] = []
    _check_count(topic_count - 1, left)
    for _ in range(topic_count - 1):
        length = 16
        if not by_id:
            length, position = read_uvarint(frame, position)
            length -= 1
        key = _key(frame, position, length)
        count, position = read_uvarint(frame, position + length)
        left -= count
        _check_count(count - 1, left)
        partitions: list[PartitionRecords] = []
        for _ in range(count - 1):
            (index,) = _I32.unpack_from(frame, position)
            size, position = read_uvarint(frame, position + 4)
            size -= 1
            if size < 0:
                partitions.append((index, None))
            else:
                if position + size > end:
                    raise RemoteProtocolError("records are longer than the request")
                partitions.append((index, frame[position : position + size]))
                position += size
            position = position + 1 if not frame[position] else skip_tags(frame, position)
        position = position + 1 if not frame[position] else skip_tags(frame, position)
        topics.append((key, partitions))
    skip_tags(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _check_count(count: int, left: int) -> None:
    if count < 0:
        raise RemoteProtocolError("an array must not be null")
    if left < 0 or count > left:
        raise RemoteProtocolError("the request announces more entries than its size allows")


def _key(frame: memoryview, position: int, length: int) -> bytes:
    if length < 0 or position + length > len(frame):
        raise RemoteProtocolError("a topic name is null or longer than the request")
    return bytes(frame[position : position + length])


def _text(frame: memoryview, position: int, length: int) -> str:
    return _key(frame, position, length).decode("utf-8", "replace")


def encode_response(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicResult],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> bytes:
    """Encode a response frame: size, header, body."""
    flexible = version >= FIRST_FLEXIBLE
    parts: list[bytes] = [b"\0" if flexible else b"", _count(len(topics), flexible)]
    for key, partitions in topics:
        parts.append(topic_prefix(version, key, len(partitions)))
        parts += [_partition(version, result) for result in partitions]
        if flexible:
            parts.append(b"\0")
    parts.append(_I32.pack(throttle_ms))
    if flexible:
        parts.append(encode_endpoints(endpoints) if endpoints and version >= FIRST_LEADER_HINTS else b"\0")
    body = b"".join(parts)
    return SIZE_AND_CORRELATION_ID.pack(len(body) + 4, correlation_id) + body


def topic_prefix(version: int, key: bytes, partition_count: int) -> bytes:
    """Name or id of a topic, and the number of its partitions."""
    if version >= FIRST_TOPIC_IDS:
        return key + encode_uvarint(partition_count + 1)
    if version >= FIRST_FLEXIBLE:
        return encode_uvarint(len(key) + 1) + key + encode_uvarint(partition_count + 1)
    return _I16.pack(len(key)) + key + _I32.pack(partition_count)


class SingleResponse:
    """Encoder of responses with one successful partition: all but four numbers are constant."""

    __slots__ = ("_flexible", "_pack", "_prefix", "_size", "_suffix", "_v3")

    def __init__(self, version: int, key: bytes) -> None:
        flexible = version >= FIRST_FLEXIBLE
        self._flexible = flexible
        tag = b"\0" if flexible else b""
        self._prefix = tag + _count(1, flexible) + topic_prefix(version, key, 1)
        no_errors = b"" if version < 8 else b"\1\0" if flexible else b"\0\0\0\0\xff\xff"
        self._suffix = no_errors + tag + tag + b"\0\0\0\0" + tag
        self._v3 = version < 5
        size = len(self._prefix) + (_ENTRY_V3 if self._v3 else _ENTRY).size + len(self._suffix) + 4
        self._pack = Struct(
            f">ii{len(self._prefix)}sih{'qq' if self._v3 else 'qqq'}{len(self._suffix)}s"
        ).pack
        self._size = size

    @property
    def base_offset_at(self) -> int:
        """Position of the base offset in an encoded response."""
        return 8 + len(self._prefix) + 6

    @property
    def throttle_at(self) -> int:
        """Position of the throttle time, from the end of an encoded response."""
        return -5 if self._flexible else -4

    def throttled(self, response: bytes, throttle_ms: int) -> bytes:
        """The same response with a throttle time."""
        at = self.throttle_at
        return response[:at] + _I32.pack(throttle_ms) + response[len(response) + at + 4 :]

    def encode(self, correlation_id: int, index: int, base: int, append_time: int, log_start: int) -> bytes:
        if self._v3:
            return self._pack(
                self._size, correlation_id, self._prefix, index, 0, base, append_time, self._suffix
            )
        return self._pack(
            self._size, correlation_id, self._prefix, index, 0, base, append_time, log_start, self._suffix
        )


def _partition(version: int, result: PartitionResult) -> bytes:
    if version < 5:
        return _ENTRY_V3.pack(
            result.partition, result.error_code, result.base_offset, result.log_append_time_ms
        )
    entry = _ENTRY.pack(*result[:5])
    if version < 8:
        return entry
    flexible = version >= FIRST_FLEXIBLE
    parts = [entry, _count(len(result.record_errors), flexible)]
    for batch_index, message in result.record_errors:
        parts += [_I32.pack(batch_index), _nullable(message, flexible)]
        if flexible:
            parts.append(b"\0")
    parts.append(_nullable(result.error_message, flexible))
    if flexible:
        leader = result.current_leader
        if leader is None or version < FIRST_LEADER_HINTS:
            parts.append(b"\0")
        else:
            parts.append(_LEADER.pack(1, 0, 9, *leader, 0))
    return b"".join(parts)


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the tagged field with the addresses of the brokers named in `current_leader`."""
    parts = [encode_uvarint(len(endpoints) + 1)]
    for node in endpoints:
        parts += [_I32.pack(node.node_id), _nullable(node.host, True), _I32.pack(node.port)]
        parts += [_nullable(node.rack, True), b"\0"]
    body = b"".join(parts)
    return b"\1\0" + encode_uvarint(len(body)) + body


def _count(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _I32.pack(count)


def _nullable(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    raw = text.encode()
    return (encode_uvarint(len(raw) + 1) if flexible else _I16.pack(len(raw))) + raw

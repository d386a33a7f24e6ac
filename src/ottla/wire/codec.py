"""Encoding and decoding of messages in all their versions.

The code for a pair (class, version) is generated on first use and cached; the cache is the only state, and nodes in
one process may share it. Invalid bytes raise `RemoteProtocolError`. A message that cannot be encoded in the
requested version raises `LocalError`. The functions are pure and thread-safe.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TypeVar

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.base.varint import Source
from ottla.wire.decoder import Reader, make_reader
from ottla.wire.encoder import Writer, make_writer
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)

# Memory that a decoded message may use per byte received ...
GROWTH = 4
# ... and in addition, for any message. Python needs some 130 bytes for a topic name of 8 encoded bytes, so the factor
# alone would reject regular requests. This allows 10,000 topics with the shortest names in Metadata, 10,000 partitions
# in ListOffsets, 2,000 topics with three settings each in CreateTopics.
ALLOWANCE_BYTES = 2 << 20
# Larger requests get the budget of this size: a handler may need many times the memory of its request, and several
# microseconds for each element. It allows 100,000 partitions in OffsetCommit. Produce and Fetch do not use `decode`.
REQUEST_BYTES_MAX = 4 << 20


class Budget:
    """Memory budget of a decoded message: 4 bytes per byte received, and a fixed allowance.

    `spent` is an upper estimate of the memory of the message.
    """

    __slots__ = ("granted", "remaining")

    def __init__(self, received_bytes: int, allowance_bytes: int = ALLOWANCE_BYTES) -> None:
        self.granted = self.remaining = allowance_bytes + GROWTH * received_bytes

    @property
    def spent(self) -> int:
        return self.granted - self.remaining


def _check_version(message: type[Message], version: int) -> None:
    if version not in message.SPEC.versions:
        versions = message.SPEC.versions
        raise LocalError(f"{message.__name__} has versions {versions[0]} to {versions[-1]}, not {version}")


@cache
def _reader(message: type[Message], version: int) -> Reader:
    _check_version(message, version)
    return make_reader(message, version)


@cache
def _writer(message: type[Message], version: int) -> Writer:
    _check_version(message, version)
    return make_writer(message, version)


def decode(
    message: type[M], data: Source, version: int, *, budget: Budget | None = None, start: int = 0
) -> M:
    """Decode a message. Bytes after it are ignored, as in Kafka."""
    return decode_at(message, data, version, start, budget=budget)[0]


def decode_at(
    message: type[M], data: Source, version: int, start: int, *, budget: Budget | None = None
) -> tuple[M, int]:
    """Decode a message at a position; also return the position after it."""
    read = _reader(message, version)
    if budget is None:
        received = len(data) - start
        if received > REQUEST_BYTES_MAX and message.SPEC.kind == "request":
            received = REQUEST_BYTES_MAX
        budget = Budget(received)
    try:
        made, position, budget.remaining = read(data, start, budget.remaining)
    except (struct.error, IndexError) as error:
        raise RemoteProtocolError(f"{message.__name__} v{version} ends too early") from error
    return made, position


def encode(message: Message, version: int) -> bytes:
    """Encode a message."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[bytes]:
    """Encode a message as buffers to send one after the other. Large fields are not copied."""
    parts: list[bytes] = []
    try:
        _writer(type(message), version)(parts.append, message)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise LocalError(
            f"{type(message).__name__} v{version} has a value that cannot be encoded: {error}"
        ) from error
    return parts

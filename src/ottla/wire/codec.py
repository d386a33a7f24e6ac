"""Messages to bytes and back, in any version they are declared for.

`decode` and `encode` are the whole interface. The code for a pair (class, version) is made on first use and
kept. Bytes that are not a message raise `RemoteProtocolError`, a message of ours that cannot be written in
the version asked for raises `LocalError`. Both functions are pure and may be called from any thread.
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

# What a decoded message may hold in memory, per byte received ...
GROWTH = 4
# ... and on top of that, however small it is. Python needs some 130 bytes for a topic name that travels in 8,
# so growth alone would refuse honest requests. This admits 10,000 topics with the shortest names in Metadata,
# 10,000 partitions in ListOffsets, 2,000 topics with three settings each in CreateTopics.
ALLOWANCE_BYTES = 2 << 20


class Budget:
    """How much memory a decoded message may still hold: 4 bytes per byte received and a fixed allowance.

    `spent` tells what a message came to, an upper estimate, for whoever counts the memory of all requests.
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
    """Read a message; bytes behind it are ignored, as Kafka does."""
    return decode_at(message, data, version, start, budget=budget)[0]


def decode_at(
    message: type[M], data: Source, version: int, start: int, *, budget: Budget | None = None
) -> tuple[M, int]:
    """Read a message at a position; also the position behind it."""
    read = _reader(message, version)
    if budget is None:
        budget = Budget(len(data) - start)
    try:
        made, position, budget.remaining = read(data, start, budget.remaining)
    except (struct.error, IndexError) as error:
        raise RemoteProtocolError(f"{message.__name__} v{version} ends too early") from error
    return made, position


def encode(message: Message, version: int) -> bytes:
    """Write a message."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[bytes]:
    """Write a message as pieces to be sent one after another; large fields are not copied."""
    parts: list[bytes] = []
    try:
        _writer(type(message), version)(parts.append, message)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise LocalError(
            f"{type(message).__name__} v{version} holds what cannot be written: {error}"
        ) from error
    return parts

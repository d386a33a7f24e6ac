"""Decodes the subscribed topics of consumers from their JoinGroup metadata.

The metadata belongs to the members. The coordinator only decodes the topics, which all versions have at the
beginning: int16 version, then an array of names. Bytes in another format belong to another embedded protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION = Struct(">h")


def topics_of_subscription(metadata: bytes) -> list[str] | None:
    """The topics of one member's subscription; None if the bytes are not a subscription."""
    if len(metadata) < _VERSION.size or _VERSION.unpack_from(metadata)[0] < 0:
        return None
    try:
        return codec.decode(ConsumerProtocolSubscription, metadata, 0, start=_VERSION.size).topics
    except RemoteProtocolError:
        return None


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the members subscribe to; None if one subscription cannot be decoded."""
    found: set[str] = set()
    for metadata in subscriptions:
        topics = topics_of_subscription(metadata)
        if topics is None:
            return None
        found.update(topics)
    return frozenset(found)

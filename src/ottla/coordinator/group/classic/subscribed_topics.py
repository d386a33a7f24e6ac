"""What consumers tell each other in a classic group, as far as the coordinator looks into it.

The bytes belong to the members. The coordinator reads one thing, the topics a member subscribes to, and takes
them from the beginning that all versions share: int16 version, then an array of names. Bytes that do not look
like that belong to a protocol of somebody else and say nothing.
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
    """The topics of one member's subscription; None if the bytes are no subscription."""
    if len(metadata) < _VERSION.size or _VERSION.unpack_from(metadata)[0] < 0:
        return None
    try:
        return codec.decode(ConsumerProtocolSubscription, metadata, 0, start=_VERSION.size).topics
    except RemoteProtocolError:
        return None


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that some member subscribes to; None if one of them cannot be read."""
    found: set[str] = set()
    for metadata in subscriptions:
        topics = topics_of_subscription(metadata)
        if topics is None:
            return None
        found.update(topics)
    return frozenset(found)

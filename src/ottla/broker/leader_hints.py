"""Current leaders and their endpoints, for responses about leadership errors (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from ottla.base.errors import ErrorCode
from ottla.wire.produce import NodeEndpoint

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage, TopicImage

HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def topic_of(image: MetadataImage, key: bytes, *, by_id: bool) -> TopicImage | None:
    """Return the topic of a key (name or id) as the hot codecs parse it."""
    if by_id:
        return image.topics.by_id.get(UUID(bytes=key))
    return image.topics.by_name.get(key.decode("utf-8", "replace"))


def current_leader(image: MetadataImage, key: bytes, index: int, *, by_id: bool) -> tuple[int, int] | None:
    """Return leader and leader epoch of a partition; None if it does not exist."""
    topic = topic_of(image, key, by_id=by_id)
    partition = None if topic is None else topic.partitions.get(index)
    return None if partition is None else (partition.leader, partition.leader_epoch)


def endpoints(image: MetadataImage, leaders: set[int], listener: str) -> list[NodeEndpoint]:
    """Return the endpoints of brokers on the listener of the request."""
    found = []
    for broker_id in sorted(leaders):
        broker = image.brokers.get(broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            if endpoint.name == listener and broker is not None:
                found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, broker.rack))
    return found

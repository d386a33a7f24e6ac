"""A hash of all topic metadata that the assignment of a group depends on (KIP-1101).

It is stored with every group epoch. If it differs from the current hash, topics were created or deleted, got
partitions, or moved between racks, and the group needs a new epoch. The hash is the one that Kafka computes, so a
group that moves between brokers of both kinds does not rebalance because of it.

Layout, all little endian, hashed with XXH3 (64 bits, seed 0). A string is its UTF-16 units, then their count as
int32.
- topic: 0x00 | id high int64 | id low int64 | name string | partition count int32, then for each partition its number
  int32 | for each rack of a replica, sorted: length int32 | rack string
- group: the hashes of its existing topics as int64, in the order of their names; without any topic it is 0.

The hash of a topic is cached until its image is replaced; images are never modified. So a broker that changes its
rack is noticed when the topic's partitions change, not before (as in Kafka).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import xxhash

from ottla.metadata.image import MetadataImage, TopicImage

_MAGIC = b"\x00"


def _text(value: str) -> bytes:
    units = value.encode("utf-16-le")
    return units + struct.pack("<i", len(units) // 2)


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >= 1 << 63 else digest


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    """The hash of one topic."""
    number = topic.topic_id.int
    parts = [
        _MAGIC,
        struct.pack("<QQ", number >> 64, number & ((1 << 64) - 1)),
        _text(topic.name),
        struct.pack("<i", len(topic.partitions)),
    ]
    for index, partition in topic.partitions.items():
        parts.append(struct.pack("<i", index))
        brokers = (image.brokers.get(replica) for replica in partition.replicas)
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack):
            parts.append(struct.pack("<i", len(rack.encode("utf-16-le")) // 2))
            parts.append(_text(rack))
    return _signed(xxhash.xxh3_64_intdigest(b"".join(parts)))


class MetadataHashes:
    """A cache of topic hashes, computed once per topic image."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicImage, int]] = {}

    def of(self, topics: Iterable[str], image: MetadataImage) -> int:
        """The group hash over the topics that exist."""
        found = [image.topics.by_name[name] for name in sorted(topics) if name in image.topics.by_name]
        if not found:
            return 0
        packed = struct.pack(f"<{len(found)}q", *(self._topic(topic, image) for topic in found))
        return _signed(xxhash.xxh3_64_intdigest(packed))

    def forget(self, topics: Iterable[str]) -> None:
        """Remove topics that changed or were deleted from the cache."""
        for name in topics:
            self._known.pop(name, None)

    def _topic(self, topic: TopicImage, image: MetadataImage) -> int:
        known = self._known.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._known[topic.name] = (topic, topic_hash(topic, image))
        return known[1]

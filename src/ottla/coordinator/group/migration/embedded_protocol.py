"""Codec of the consumer protocol that classic consumers embed in JoinGroup and SyncGroup.

Layout: int16 version, then a ConsumerProtocolSubscription or ConsumerProtocolAssignment of that version. Versions
newer than the newest known one are read as the newest known one: new versions only append fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import TypeVar

from ottla.base.errors import RemoteProtocolError
from ottla.base.ids import Uuid
from ottla.metadata.image import MetadataImage
from ottla.wire import codec
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.schema import Message

_VERSION = Struct(">h")

M = TypeVar("M", bound=Message)


def version_of(data: bytes) -> int:
    """The version of the data, at most the newest known version."""
    if len(data) < _VERSION.size or (version := _VERSION.unpack_from(data)[0]) < 0:
        raise RemoteProtocolError("the metadata has no version of the consumer protocol")
    return min(int(version), ConsumerProtocolSubscription.SPEC.versions[-1])


def _read(message: type[M], data: bytes) -> M:
    return codec.decode(message, data, version_of(data), start=_VERSION.size)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return _read(ConsumerProtocolAssignment, data)


def write_assignment(owned: Mapping[Uuid, Collection[int]], image: MetadataImage, version: int) -> bytes:
    """Encode partitions by topic name; deleted topics are omitted."""
    by_id = image.topics.by_id
    listed = [
        ConsumerProtocolAssignmentTopicPartition(topic=by_id[topic].name, partitions=sorted(partitions))
        for topic, partitions in sorted(owned.items())
        if topic in by_id
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=listed)
    return _VERSION.pack(version) + codec.encode(message, version)


def by_topic_id(
    listed: Iterable[TopicPartition | ConsumerProtocolAssignmentTopicPartition], image: MetadataImage
) -> dict[Uuid, frozenset[int]]:
    """Partitions by topic id; unknown names are omitted."""
    by_name = image.topics.by_name
    found: dict[Uuid, frozenset[int]] = {}
    for each in listed:
        if each.topic in by_name:
            topic_id = by_name[each.topic].topic_id
            found[topic_id] = found.get(topic_id, frozenset()) | frozenset(each.partitions)
    return found

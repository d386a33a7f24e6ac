"""Requests to other brokers that a test completes, and images with leaders."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.peer.errors import PeerError, Reason
from ottla.wire import codec
from ottla.wire.schema import Message

Leaders = Mapping[TopicPartition, tuple[int, int]]
"""The leader and the leader epoch of each partition."""


class Sent(NamedTuple):
    """A request without a response."""

    node_id: int
    message: Any
    promise: Promise[Any]

    def respond(self, response: Message) -> None:
        self.promise.keep(response)

    def fail(self, reason: Reason = Reason.CLOSED) -> None:
        self.promise.fail(PeerError(reason, "the connection was closed"))


class FakePeers:
    """Keeps requests; each is encoded and decoded in the newest version."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def request(
        self,
        node_id: int,
        message: Message,
        response: type[Any],
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[Any]:
        version = (versions or message.SPEC.versions)[-1]
        decoded = codec.decode(type(message), memoryview(codec.encode(message, version)), version)
        self.sent.append(Sent(node_id, decoded, Promise()))
        return self.sent[-1].promise

    def take(self) -> Sent:
        """The only request that was sent since the last call."""
        (sent,) = self.sent
        self.sent.clear()
        return sent


def image_of(leaders: Leaders, *, version: int = 2) -> MetadataImage:
    """An image in which these partitions have these leaders."""
    topics: dict[str, dict[int, PartitionImage]] = {}
    for where, (leader, epoch) in leaders.items():
        topics.setdefault(where.topic, {})[where.partition] = PartitionImage(
            replicas=(1, 2, 3), directories=(), isr=(1, 2, 3), leader=leader, leader_epoch=epoch
        )
    images = [
        TopicImage(name, uuid.uuid5(uuid.NAMESPACE_OID, name), partitions)
        for name, partitions in topics.items()
    ]
    by_name, by_id = {each.name: each for each in images}, {each.topic_id: each for each in images}
    return MetadataImage(features={"transaction.version": version}, topics=TopicsImage(by_name, by_id))

"""Values of a Metadata response: brokers, topics, leaders of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


class PartitionInfo(NamedTuple):
    leader: int
    """The node id of the leader, or NO_LEADER."""
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: Uuid
    internal: bool
    partitions: dict[int, PartitionInfo]
    """By index, ascending."""


def brokers_of(response: MetadataResponse) -> dict[int, tuple[str, int]]:
    """The addresses of the brokers by node id."""
    return {broker.node_id: (broker.host, broker.port) for broker in response.brokers}


def topic_of(topic: MetadataResponseTopic) -> TopicInfo:
    """A topic that was reported without an error."""
    partitions = {
        one.partition_index: PartitionInfo(one.leader_id, one.leader_epoch) for one in topic.partitions
    }
    return TopicInfo(topic.name or "", topic.topic_id, topic.is_internal, dict(sorted(partitions.items())))

"""What a cluster says about itself: its brokers, its topics, and who leads their partitions. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


class PartitionInfo(NamedTuple):
    leader: int
    """The leader's node id, or NO_LEADER."""
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: Uuid
    internal: bool
    partitions: dict[int, PartitionInfo]
    """By index, ascending."""


def brokers_of(answer: MetadataResponse) -> dict[int, tuple[str, int]]:
    """The brokers' addresses by node id."""
    return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}


def topic_of(topic: MetadataResponseTopic) -> TopicInfo:
    """A topic that the cluster told without an error."""
    partitions = {
        one.partition_index: PartitionInfo(one.leader_id, one.leader_epoch) for one in topic.partitions
    }
    return TopicInfo(topic.name or "", topic.topic_id, topic.is_internal, dict(sorted(partitions.items())))

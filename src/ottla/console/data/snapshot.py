"""One view of a cluster at one moment, as the poller publishes it to all pages. Values only.

A snapshot is complete or names what could not be read in `error`; pages then show the last values and the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ottla.admin.groups import GroupInfo
from ottla.admin.health import CRITICAL, SEVERITIES, WARNING, Problem
from ottla.admin.topics import PartitionInfo, TopicInfo
from ottla.base.ids import TopicPartition


@dataclass(frozen=True)
class Broker:
    """A broker. `state`: running, or fenced, killed, paused, starting, ... if its process is controlled from here."""

    node_id: int
    address: str
    rack: str | None
    state: str = "running"
    is_controller: bool = False

    @property
    def listed(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True)
class Change:
    """Something that differs between two snapshots, in one sentence."""

    time_ms: int
    kind: str
    """broker, leader, isr, topic or group: for the colour of its mark."""
    text: str


@dataclass(frozen=True)
class Snapshot:
    version: int = 0
    time_ms: int = 0
    cluster_id: str | None = None
    brokers: tuple[Broker, ...] = ()
    topics: tuple[TopicInfo, ...] = ()
    groups: tuple[GroupInfo, ...] = ()
    rates: Mapping[TopicPartition, float] = field(default_factory=dict)
    """Offsets per second of each partition."""
    rate_history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Offsets per second of each topic, oldest first; the key "" has the sum of all topics that are not internal."""
    lag_history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The lag of each group in offsets, oldest first."""
    lag_seconds_history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    """Newest first."""
    health: tuple[Problem, ...] = ()
    """Problems of partitions, the quorum and disks, the worst first."""
    error: str | None = None

    @property
    def partitions(self) -> list[PartitionInfo]:
        return [each for topic in self.topics for each in topic.partitions]

    @property
    def user_topics(self) -> list[TopicInfo]:
        return [topic for topic in self.topics if not topic.internal]

    def topic(self, name: str) -> TopicInfo | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    def group(self, name: str) -> GroupInfo | None:
        return next((group for group in self.groups if group.name == name), None)

    def consumers(self, topic: str) -> list[GroupInfo]:
        """The groups that have a position in a topic."""
        return [group for group in self.groups if topic in group.topics]

    def topic_rate(self, name: str) -> float:
        return sum(rate for tp, rate in self.rates.items() if tp.topic == name)

    def broker_rate(self, node_id: int) -> float:
        """Offsets per second of the partitions that a broker leads."""
        return sum(self.rates.get(each.tp, 0.0) for each in self.partitions if each.leader == node_id)

    @property
    def rate(self) -> float:
        return sum(self.topic_rate(topic.name) for topic in self.user_topics)

    def leads(self, node_id: int) -> int:
        return sum(each.leader == node_id for each in self.partitions)

    def follows(self, node_id: int, *, in_sync: bool) -> int:
        return sum(
            node_id in each.replicas and node_id != each.leader and (node_id in each.isr) == in_sync
            for each in self.partitions
        )

    @property
    def racks(self) -> list[tuple[str, list[Broker]]]:
        """The brokers by rack, in the order of racks and ids."""
        ordered = sorted(self.brokers, key=lambda each: (each.rack or "", each.node_id))
        return [(rack, list(theirs)) for rack, theirs in groupby(ordered, key=lambda each: each.rack or "")]

    @property
    def problems(self) -> list[Problem]:
        """What is wrong, the worst first: brokers that do not run, and `health`."""
        found = [Problem(CRITICAL, "no response", self.error)] if self.error else []
        for broker in self.brokers:
            if not broker.listed:
                found.append(Problem(WARNING, "broker", f"broker {broker.node_id} is {broker.state}"))
        return sorted([*found, *self.health], key=lambda each: SEVERITIES.index(each.severity))


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

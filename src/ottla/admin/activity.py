"""Rates of topics and groups from two samples of a cluster, and the time until a group has caught up.

Rates are offsets per second: markers of transactions and compacted records have offsets as well. `compare` is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.admin.groups import GroupInfo, describe_groups, list_groups
from ottla.admin.session import Session
from ottla.admin.topics import TopicInfo, list_topics
from ottla.base.ids import TopicPartition


@dataclass(frozen=True)
class Sample:
    """Topics and groups at one moment."""

    at_s: float
    topics: Sequence[TopicInfo]
    groups: Sequence[GroupInfo]


@dataclass(frozen=True)
class TopicActivity:
    """One topic and how fast it grows; the rate is None without an earlier sample."""

    topic: TopicInfo
    offsets_per_s: float | None


@dataclass(frozen=True)
class GroupActivity:
    """One group and how fast it reads."""

    group: GroupInfo
    offsets_per_s: float | None
    """Committed offsets per second."""
    lag_per_s: float | None
    """The change of its lag; negative if it catches up."""
    catches_up_s: float | None
    """The time until it has no lag at this rate; None if it does not catch up."""


def take_sample(session: Session, *, internal: bool = False) -> Sample:
    """Topics and groups now."""
    topics = list_topics(session, internal=internal)
    groups = describe_groups(session, [each.name for each in list_groups(session)], missing_ok=True)
    return Sample(session.clock.monotonic(), topics, groups)


def compare(before: Sample | None, now: Sample) -> tuple[list[TopicActivity], list[GroupActivity]]:
    """Topics, the fastest first, and groups, the largest lag first."""
    elapsed_s = 0.0 if before is None else now.at_s - before.at_s
    if before is None or elapsed_s <= 0:
        topics = [TopicActivity(each, None) for each in now.topics]
        groups = [GroupActivity(each, None, None, None) for each in now.groups]
    else:
        ends = {each.name: _ends(each) for each in before.topics}
        topics = [
            TopicActivity(each, _growth(ends.get(each.name, {}), _ends(each)) / elapsed_s)
            for each in now.topics
        ]
        earlier = {each.name: each for each in before.groups}
        groups = [_group(earlier.get(each.name), each, elapsed_s) for each in now.groups]
    topics.sort(key=lambda each: (-(each.offsets_per_s or 0), each.topic.name))
    groups.sort(key=lambda each: (-(each.group.lag or 0), each.group.name))
    return topics, groups


def _group(before: GroupInfo | None, now: GroupInfo, elapsed_s: float) -> GroupActivity:
    if before is None:
        return GroupActivity(now, None, None, None)
    rate = _growth(_positions(before), _positions(now)) / elapsed_s
    if before.lag is None or now.lag is None:
        return GroupActivity(now, rate, None, None)
    change = (now.lag - before.lag) / elapsed_s
    if now.lag == 0:
        return GroupActivity(now, rate, change, 0.0)
    return GroupActivity(now, rate, change, now.lag / -change if change < 0 else None)


def _ends(topic: TopicInfo) -> dict[TopicPartition, int]:
    return {each.tp: each.end_offset for each in topic.partitions if each.end_offset is not None}


def _positions(group: GroupInfo) -> dict[TopicPartition, int]:
    return {each.tp: each.committed for each in group.partitions if each.committed is not None}


def _growth(before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> int:
    """By how much the offsets of the partitions in both grew. A topic that was created again has not shrunk."""
    return sum(max(0, now[tp] - before[tp]) for tp in now.keys() & before.keys())

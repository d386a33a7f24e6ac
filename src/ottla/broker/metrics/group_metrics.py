"""Families about the groups that this broker coordinates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics.text import BREAK, SAMPLES_PER_PIECE, family, labels

if TYPE_CHECKING:
    from ottla.broker.metrics.group_lag import GroupPartition


def group_families(partitions: list[GroupPartition], members: dict[str, int], cluster: str) -> Iterator[str]:
    """Committed offsets and lag by partition, by topic and by group; `cluster` names the cluster."""
    prefix = "kafka_consumergroup"
    named: list[tuple[str, GroupPartition]] = []
    committed: dict[str, int] = defaultdict(int)
    behind: dict[str, int] = defaultdict(int)
    slowest: dict[str, float] = {}
    for one in partitions:
        named.append((labels(consumergroup=one.group, topic=one.topic, partition=one.partition), one))
        label = labels(consumergroup=one.group, topic=one.topic)
        committed[label] += one.committed
        if one.lag is not None:
            behind[label] += one.lag
        if one.lag_seconds is not None:
            slowest[one.group] = max(slowest.get(one.group, 0.0), one.lag_seconds)
        if len(named) % SAMPLES_PER_PIECE == 0:
            yield BREAK
    offsets = ((label, one.committed) for label, one in named)
    yield from family(f"{prefix}_current_offset", "gauge", "Committed offset of the group.", offsets)
    lags = ((label, one.lag) for label, one in named if one.lag is not None)
    yield from family(f"{prefix}_lag", "gauge", "Records behind the committed offset.", lags)
    text = "Sum of the committed offsets of a topic."
    yield from family(f"{prefix}_current_offset_sum", "gauge", text, committed.items())
    yield from family(f"{prefix}_lag_sum", "gauge", "Records behind, of all partitions.", behind.items())
    counts = ((labels(consumergroup=group), count) for group, count in members.items())
    yield from family(f"{prefix}_members", "gauge", "Members of the group.", counts)
    seconds = (
        (
            labels(cluster_name=cluster, group=one.group, topic=one.topic, partition=one.partition),
            one.lag_seconds,
        )
        for one in partitions
        if one.lag_seconds is not None
    )
    text = "Age of the record at the committed offset, in seconds."
    yield from family(f"{prefix}_group_lag_seconds", "gauge", text, seconds)
    greatest = ((labels(cluster_name=cluster, group=group), value) for group, value in slowest.items())
    text = "Greatest lag of the group in seconds."
    yield from family(f"{prefix}_group_max_lag_seconds", "gauge", text, greatest)

"""Families about groups: by partition, by topic, by group."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.group_lag import GroupPartition
from ottla.broker.metrics.group_metrics import group_families


def test_lag_is_summed_and_the_slowest_partition_counts() -> None:
    partitions = [
        GroupPartition("g", "t", 0, 5, 9, 2.5),
        GroupPartition("g", "t", 1, 7, 7, 0.0),
        GroupPartition("g", "u", 0, 1, None, None),
    ]
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families("".join(group_families(partitions, {"g": 2}, "c"))):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    prefix = "kafka_consumergroup"
    assert found == {
        f"{prefix}_current_offset": {("g", "t", "0"): 5, ("g", "t", "1"): 7, ("g", "u", "0"): 1},
        f"{prefix}_lag": {("g", "t", "0"): 4, ("g", "t", "1"): 0},
        f"{prefix}_current_offset_sum": {("g", "t"): 12, ("g", "u"): 1},
        f"{prefix}_lag_sum": {("g", "t"): 4},
        f"{prefix}_members": {("g",): 2},
        f"{prefix}_group_lag_seconds": {("c", "g", "t", "0"): 2.5, ("c", "g", "t", "1"): 0},
        f"{prefix}_group_max_lag_seconds": {("c", "g"): 2.5},
    }


def test_without_groups_there_is_nothing() -> None:
    assert "".join(group_families([], {}, "c")) == ""

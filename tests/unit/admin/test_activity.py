"""Rates and the time to catch up, from two samples."""

from __future__ import annotations

from ottla.admin.activity import Sample, compare
from ottla.admin.groups import GroupInfo, PartitionLag
from ottla.admin.topics import PartitionInfo, TopicInfo


def topic(name: str, end: int | None) -> TopicInfo:
    return TopicInfo(
        name, "id", False, (PartitionInfo(name, 0, 0, 0, (0,), (0,), start_offset=0, end_offset=end),)
    )


def group(name: str, committed: int, end: int) -> GroupInfo:
    position = PartitionLag("t", 0, committed, 0, end, end - committed, 0.0)
    return GroupInfo(name, "classic", "consumer", "Stable", 0, partitions=(position,))


def test_rates_of_topics_the_fastest_first() -> None:
    before = Sample(10.0, [topic("a", 0), topic("b", 0), topic("c", 9), topic("d", None)], [])
    now = Sample(12.0, [topic("a", 10), topic("b", 50), topic("c", 3), topic("d", 5), topic("e", 7)], [])
    found, _ = compare(before, now)
    assert [(each.topic.name, each.offsets_per_s) for each in found] == [
        ("b", 25.0),
        ("a", 5.0),
        ("c", 0.0),
        ("d", 0.0),
        ("e", 0.0),
    ]


def test_the_first_sample_has_no_rates() -> None:
    topics, groups = compare(None, Sample(1.0, [topic("a", 1)], [group("g", 0, 1)]))
    assert [each.offsets_per_s for each in (*topics, *groups)] == [None, None]


def test_groups_that_catch_up_fall_back_or_are_done() -> None:
    before = Sample(0.0, [], [group("up", 0, 100), group("back", 0, 100), group("done", 90, 100)])
    now = Sample(
        10.0, [], [group("up", 60, 110), group("back", 10, 200), group("done", 100, 100), group("new", 0, 1)]
    )
    _, found = compare(before, now)
    by_name = {each.group.name: (each.offsets_per_s, each.lag_per_s, each.catches_up_s) for each in found}
    assert by_name == {
        "up": (6.0, -5.0, 10.0),
        "back": (1.0, 9.0, None),
        "done": (1.0, -1.0, 0.0),
        "new": (None, None, None),
    }
    assert [each.group.name for each in found] == ["back", "up", "new", "done"]

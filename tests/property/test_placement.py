"""Placement keeps its promises on any cluster."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.placement import Leaders, last_leader, place_partitions, preferred_leaders
from ottla.metadata.records import RemoveTopicRecord
from tests.support.metadata import broker_record, replayed, topic_id_of, topic_records

CLUSTERS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12)


@given(racks=CLUSTERS, count=st.integers(1, 40), data=st.data())
def test_replicas_are_distinct_and_spread_over_racks(
    racks: list[str | None], count: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    after = data.draw(st.none() | st.integers(0, len(racks)))
    image = replayed(broker_record(broker, rack) for broker, rack in enumerate(racks))
    placed = place_partitions(image, count, factor, Leaders(Counter(), after=after))
    assert len(placed) == count
    sizes = Counter(racks)
    for replicas in placed:
        assert len(set(replicas)) == factor
        per_rack = Counter(racks[broker] for broker in replicas)
        # A rack holds one more than another only if the other has no broker left.
        for rack, held in per_rack.items():
            assert all(held - 1 <= per_rack[other] or per_rack[other] == sizes[other] for other in sizes), (
                rack
            )


@given(racks=CLUSTERS, count=st.integers(1, 60))
def test_leaders_are_even(racks: list[str | None], count: int) -> None:
    image = replayed(broker_record(broker, rack) for broker, rack in enumerate(racks))
    leaders = Counter(replicas[0] for replicas in place_partitions(image, count, 1, Leaders(Counter())))
    counts = [leaders[broker] for broker in range(len(racks))]
    assert max(counts) - min(counts) <= 1


@given(racks=CLUSTERS, counts=st.lists(st.integers(1, 20), min_size=1, max_size=8), factor=st.integers(1, 3))
def test_topics_are_placed_as_one(racks: list[str | None], counts: list[int], factor: int) -> None:
    """Each topic continues where the last one stopped; only the image is known, as to a new controller."""
    factor = min(factor, len(racks))
    image = replayed(broker_record(broker, rack) for broker, rack in enumerate(racks))
    whole = place_partitions(image, sum(counts), factor, Leaders(Counter()))
    placed: list[list[int]] = []
    for number, count in enumerate(counts):
        leaders = Leaders(preferred_leaders(image), after=last_leader(image))
        topic = place_partitions(image, count, factor, leaders)
        placed += topic
        image = replayed(topic_records(f"t{number}", topic), image)
    assert placed == whole


@given(
    racks=CLUSTERS,
    steps=st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=1, max_size=10),
)
def test_leaders_are_even_again_after_deletions(
    racks: list[str | None], steps: list[tuple[int, bool]]
) -> None:
    image = replayed(broker_record(broker, rack) for broker, rack in enumerate(racks))
    for number, (count, delete) in enumerate(steps):
        leaders = Leaders(preferred_leaders(image), after=last_leader(image))
        topic = place_partitions(image, count, 1, leaders)
        image = replayed(topic_records(f"t{number}", topic), image)
        if delete:
            name = f"t{number // 2}"
            if name in image.topics.by_name:
                image = replayed([RemoveTopicRecord(topic_id=topic_id_of(name))], image)
    loads = preferred_leaders(image)
    missing = sum(max(loads.values(), default=0) - loads[broker] for broker in range(len(racks)))
    for number in range(missing):
        leaders = Leaders(preferred_leaders(image), after=last_leader(image))
        topic = place_partitions(image, 1, 1, leaders)
        image = replayed(topic_records(f"more{number}", topic), image)
    loads = preferred_leaders(image)
    assert len({loads[broker] for broker in range(len(racks))}) == 1

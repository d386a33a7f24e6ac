"""Placement keeps its promises on any cluster."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.placement import place_partitions
from tests.support.metadata import broker_record, replayed

CLUSTERS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12)


@given(racks=CLUSTERS, count=st.integers(1, 40), data=st.data())
def test_replicas_are_distinct_and_spread_over_racks(
    racks: list[str | None], count: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    after = data.draw(st.none() | st.integers(0, len(racks)))
    image = replayed(broker_record(broker, rack) for broker, rack in enumerate(racks))
    placed = place_partitions(image, count, factor, after=after)
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
    leaders = Counter(replicas[0] for replicas in place_partitions(image, count, 1, after=None))
    counts = [leaders[broker] for broker in range(len(racks))]
    assert max(counts) - min(counts) <= 1


@given(racks=CLUSTERS, first=st.integers(1, 20), second=st.integers(1, 20))
def test_two_topics_are_placed_as_one(racks: list[str | None], first: int, second: int) -> None:
    image = replayed(broker_record(broker, rack) for broker, rack in enumerate(racks))
    whole = place_partitions(image, first + second, 1, after=None)
    part = place_partitions(image, first, 1, after=None)
    rest = place_partitions(image, second, 1, after=part[-1][0])
    assert part + rest == whole

from __future__ import annotations

from collections import Counter

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import (
    Leaders,
    check_assignment,
    last_leader,
    last_leader_of,
    place_partitions,
    preferred_leaders,
)
from ottla.metadata.records import BrokerRegistrationChangeRecord
from tests.support.metadata import broker_record, replayed, topic_records


def cluster(*racks: tuple[int, str | None], fenced: tuple[int, ...] = ()) -> MetadataImage:
    return replayed(broker_record(broker, rack, fenced=broker in fenced) for broker, rack in racks)


def leaders_of(image: MetadataImage) -> Leaders:
    return Leaders(preferred_leaders(image), after=last_leader(image))


SIX = cluster((0, "R1"), (1, "R1"), (2, "R1"), (3, "R2"), (4, "R2"), (5, "R2"))


def test_mission_e1_placement() -> None:
    placed = place_partitions(SIX, 10, 3, Leaders(Counter()))
    by_role = {
        broker: [[p for p, replicas in enumerate(placed) if replicas[role] == broker] for role in range(3)]
        for broker in range(6)
    }
    assert by_role == {
        0: [[0, 6], [5], [4]],
        3: [[1, 7], [0, 6], [5]],
        1: [[2, 8], [1, 7], [0, 6]],
        4: [[3, 9], [2, 8], [1, 7]],
        2: [[4], [3, 9], [2, 8]],
        5: [[5], [4], [3, 9]],
    }


def test_next_topic_starts_where_the_last_one_stopped() -> None:
    first = place_partitions(SIX, 10, 3, Leaders(Counter()))
    image = replayed(topic_records("first", first), SIX)
    assert place_partitions(image, 2, 3, leaders_of(image)) == [[2, 5, 0], [5, 0, 3]]


def test_more_partitions_continue_their_own_topic() -> None:
    image = replayed([*topic_records("a", [[0, 3, 1]]), *topic_records("b", [[3, 1, 4], [1, 4, 2]])], SIX)
    assert last_leader(image) == 1
    assert last_leader_of(image.topics.by_name["a"]) == 0


def test_first_topic_starts_at_the_first_place() -> None:
    assert last_leader(SIX) is None
    assert place_partitions(SIX, 1, 1, Leaders(Counter(), after=99)) == [[0]]


def test_uneven_racks_still_spread_over_racks() -> None:
    image = cluster((0, "a"), (1, "a"), (2, "a"), (3, "b"))
    assert place_partitions(image, 4, 2, Leaders(Counter())) == [
        [0, 3],
        [3, 1],
        [1, 3],
        [2, 3],
    ]


def test_without_racks_followers_are_the_next_places() -> None:
    image = cluster((1, None), (2, None), (3, None))
    assert place_partitions(image, 3, 2, Leaders(Counter())) == [[1, 2], [2, 3], [3, 1]]


def test_fenced_broker_follows_only_if_needed_and_never_leads() -> None:
    image = cluster((1, None), (2, None), (3, None), fenced=(1,))
    assert place_partitions(image, 2, 2, Leaders(Counter())) == [[2, 3], [3, 2]]
    assert place_partitions(image, 2, 3, Leaders(Counter())) == [[2, 3, 1], [3, 2, 1]]


def test_broker_in_a_controlled_shutdown_follows_only_if_needed_and_never_leads() -> None:
    stops = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1)
    image = replayed([stops], cluster((1, None), (2, None), (3, None)))
    assert place_partitions(image, 2, 2, Leaders(Counter())) == [[2, 3], [3, 2]]
    assert place_partitions(image, 2, 3, Leaders(Counter())) == [[2, 3, 1], [3, 2, 1]]


def test_several_fenced_brokers_follow_if_needed() -> None:
    image = cluster((1, "a"), (2, "b"), (3, "b"), fenced=(2, 3))
    assert place_partitions(image, 1, 3, Leaders(Counter())) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("image", "factor"), [(SIX, 7), (cluster(), 1), (cluster((1, None), fenced=(1,)), 1)], ids=str
)
def test_too_few_brokers(image: MetadataImage, factor: int) -> None:
    with pytest.raises(ApiError) as refused:
        place_partitions(image, 1, factor, Leaders(Counter()))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("replicas", "expected"), [([], None), ([9], None), ([1, 1], None), ([1, 2], 3), ([1, 2], 1)]
)
def test_bad_manual_assignment(replicas: list[int], expected: int | None) -> None:
    with pytest.raises(ApiError) as refused:
        check_assignment(SIX, replicas, expected)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_good_manual_assignment() -> None:
    check_assignment(SIX, [5, 0], 2)


def test_leaders_fill_the_gaps_that_deleted_topics_leave() -> None:
    image = replayed(topic_records("kept", [[0], [3], [1], [0], [3], [1]]), SIX)
    placed = place_partitions(image, 6, 1, leaders_of(image))
    assert placed == [[4], [2], [5], [0], [3], [1]], "one of each broker, the least loaded first"
    placed = place_partitions(image, 3, 1, leaders_of(image))
    assert placed == [[4], [2], [5]]


def test_more_partitions_are_even_within_their_topic_first() -> None:
    image = replayed(topic_records("t", [[0], [3]]), SIX)
    leaders = Leaders(Counter({1: 5}), topic=[0, 3], after=3)
    assert place_partitions(image, 5, 1, leaders) == [[4], [2], [5], [1], [0]]


def test_a_new_broker_gets_leaders_but_not_a_whole_topic() -> None:
    image = cluster((1, None), (2, None), (3, None))
    led = Counter({1: 100, 2: 100})
    placed = place_partitions(image, 4, 1, Leaders(led, after=2))
    assert Counter(replicas[0] for replicas in placed) == {3: 2, 1: 1, 2: 1}

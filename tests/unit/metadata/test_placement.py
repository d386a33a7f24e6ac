from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import check_assignment, last_leader, last_leader_of, place_partitions
from tests.support.metadata import broker_record, replayed, topic_records


def cluster(*racks: tuple[int, str | None], fenced: tuple[int, ...] = ()) -> MetadataImage:
    return replayed(broker_record(broker, rack, fenced=broker in fenced) for broker, rack in racks)


SIX = cluster((0, "R1"), (1, "R1"), (2, "R1"), (3, "R2"), (4, "R2"), (5, "R2"))


def test_mission_e1_placement() -> None:
    placed = place_partitions(SIX, 10, 3, after=None)
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
    first = place_partitions(SIX, 10, 3, after=None)
    image = replayed(topic_records("first", first), SIX)
    assert place_partitions(image, 2, 3, after=last_leader(image)) == [[2, 5, 0], [5, 0, 3]]


def test_more_partitions_continue_their_own_topic() -> None:
    image = replayed([*topic_records("a", [[0, 3, 1]]), *topic_records("b", [[3, 1, 4], [1, 4, 2]])], SIX)
    assert last_leader(image) == 1
    assert last_leader_of(image.topics.by_name["a"]) == 0


def test_first_topic_starts_at_the_first_place() -> None:
    assert last_leader(SIX) is None
    assert place_partitions(SIX, 1, 1, after=99) == [[0]]


def test_uneven_racks_still_spread_over_racks() -> None:
    image = cluster((0, "a"), (1, "a"), (2, "a"), (3, "b"))
    assert place_partitions(image, 4, 2, after=None) == [
        [0, 3],
        [3, 1],
        [1, 3],
        [2, 3],
    ]


def test_without_racks_followers_are_the_next_places() -> None:
    image = cluster((1, None), (2, None), (3, None))
    assert place_partitions(image, 3, 2, after=None) == [[1, 2], [2, 3], [3, 1]]


def test_fenced_broker_follows_only_if_needed_and_never_leads() -> None:
    image = cluster((1, None), (2, None), (3, None), fenced=(1,))
    assert place_partitions(image, 2, 2, after=None) == [[2, 3], [3, 2]]
    assert place_partitions(image, 2, 3, after=None) == [[2, 3, 1], [3, 2, 1]]


@pytest.mark.parametrize(
    ("image", "factor"), [(SIX, 7), (cluster(), 1), (cluster((1, None), fenced=(1,)), 1)], ids=str
)
def test_too_few_brokers(image: MetadataImage, factor: int) -> None:
    with pytest.raises(ApiError) as refused:
        place_partitions(image, 1, factor, after=None)
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

"""The `uniform` assignor."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import pairwise

from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec
from ottla.coordinator.group.assignors.uniform import UniformAssignor

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
Held = Mapping[uuid.UUID, tuple[int, ...]]


def reader(name: str, *topics: uuid.UUID, has: Held | None = None) -> MemberSpec:
    assigned = {topic: frozenset(partitions) for topic, partitions in (has or {}).items()}
    return MemberSpec(name, frozenset(topics), assigned)


def assign(counts: dict[uuid.UUID, int], *members: MemberSpec) -> dict[str, Assignment]:
    return UniformAssignor().assign(GroupSpec(list(members), counts))


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


# --- equal subscriptions


def test_all_get_equal_shares_of_all_topics_together() -> None:
    targets = assign({T: 3, U: 3}, reader("a", T, U), reader("b", T, U))
    assert {name: size(target) for name, target in targets.items()} == {"a": 3, "b": 3}


def test_nothing_moves_without_need() -> None:
    has = {"a": {T: (0, 3)}, "b": {T: (1, 2)}}
    targets = assign({T: 4}, reader("a", T, has=has["a"]), reader("b", T, has=has["b"]))
    assert targets == {"a": {T: {0, 3}}, "b": {T: {1, 2}}}


def test_a_new_member_gets_its_share_and_no_more_moves() -> None:
    targets = assign(
        {T: 6}, reader("a", T, has={T: (0, 1, 2)}), reader("b", T, has={T: (3, 4, 5)}), reader("c", T)
    )
    assert targets["a"][T] == {0, 1}
    assert targets["b"][T] == {3, 4}
    assert targets["c"][T] == {2, 5}


def test_a_member_with_one_partition_more_keeps_it() -> None:
    targets = assign({T: 3}, reader("a", T, has={T: (0,)}), reader("b", T, has={T: (1, 2)}))
    assert targets == {"a": {T: {0}}, "b": {T: {1, 2}}}


def test_the_partitions_of_a_removed_member_are_shared() -> None:
    targets = assign({T: 6}, reader("a", T, has={T: (0, 1)}), reader("b", T, has={T: (2, 3)}))
    assert targets == {"a": {T: {0, 1, 4}}, "b": {T: {2, 3, 5}}}


def test_deleted_partitions_and_topics_are_dropped() -> None:
    targets = assign({T: 2}, reader("a", T, has={T: (0, 7), U: (0,)}), reader("b", T))
    assert targets == {"a": {T: {0}}, "b": {T: {1}}}


def test_a_partition_in_two_previous_targets_is_assigned_once() -> None:
    targets = assign({T: 2}, reader("a", T, has={T: (0,)}), reader("b", T, has={T: (0,)}))
    assert targets == {"a": {T: {0}}, "b": {T: {1}}}


def test_more_members_than_partitions_and_none_at_all() -> None:
    targets = assign({T: 1}, reader("a", T), reader("b", T, has={T: (0,)}))
    assert targets == {"a": {}, "b": {T: {0}}}
    assert assign({}) == {}
    assert assign({}, reader("a")) == {"a": {}}


# --- different subscriptions


def test_only_subscribers_get_partitions_of_a_topic() -> None:
    targets = assign({T: 4, U: 2}, reader("a", T), reader("b", T, U))
    assert targets["a"] == {T: targets["a"][T]}
    assert targets["b"][U] == {0, 1}
    assert sorted(map(size, targets.values())) == [3, 3]


def test_balance_among_subscribers_precedes_stickiness() -> None:
    targets = assign({T: 4, U: 1}, reader("a", T, has={T: (0, 1, 2, 3)}), reader("b", T, U))
    assert sorted(map(size, targets.values())) == [2, 3]
    assert len(targets["a"][T] & {0, 1, 2, 3}) == len(targets["a"][T])


def test_a_balanced_assignment_does_not_change() -> None:
    has_a, has_b = {T: (2, 3)}, {T: (0, 1), U: (0,)}
    targets = assign({T: 4, U: 1}, reader("a", T, has=has_a), reader("b", T, U, has=has_b))
    assert targets == {"a": {T: {2, 3}}, "b": {T: {0, 1}, U: {0}}}


def test_unsubscribed_topics_are_unassigned() -> None:
    targets = assign({T: 1, U: 1}, reader("a", T, has={U: (0,)}), reader("b", U, has={T: (0,)}))
    assert targets == {"a": {T: {0}}, "b": {U: {0}}}


def test_overlapping_subscriptions_are_balanced() -> None:
    topics = [uuid.UUID(int=10 + number) for number in range(3)]
    members = [
        reader("a", topics[0], has={topics[0]: tuple(range(9))}),
        reader("b", topics[0], topics[1], has={topics[1]: tuple(range(9))}),
        reader("c", topics[1], topics[2], has={topics[2]: tuple(range(9))}),
        reader("d", topics[2]),
    ]
    sizes = [size(target) for target in assign(dict.fromkeys(topics, 9), *members).values()]
    assert sum(sizes) == 27
    assert all(abs(one - next_one) <= 1 for one, next_one in pairwise(sizes)), (
        "as far as each topic's readers see"
    )

"""The `range` assignor."""

from __future__ import annotations

import uuid

from ottla.coordinator.group.assignors.range import RangeAssignor
from ottla.coordinator.group.assignors.spec import GroupSpec, MemberSpec

T, U = uuid.UUID(int=1), uuid.UUID(int=2)


def assign(counts: dict[uuid.UUID, int], *members: MemberSpec) -> dict[str, dict[uuid.UUID, list[int]]]:
    targets = RangeAssignor().assign(GroupSpec(list(members), counts))
    return {
        name: {topic: sorted(partitions) for topic, partitions in target.items()}
        for name, target in targets.items()
    }


def reader(name: str, *topics: uuid.UUID, instance: str | None = None) -> MemberSpec:
    return MemberSpec(name, frozenset(topics), instance_id=instance)


def test_the_first_members_get_one_more() -> None:
    assert assign({T: 5}, reader("b", T), reader("a", T)) == {"a": {T: [0, 1, 2]}, "b": {T: [3, 4]}}


def test_topics_of_equal_size_are_co_partitioned() -> None:
    targets = assign({T: 4, U: 4}, reader("a", T, U), reader("b", T, U), reader("c", T, U))
    assert all(target[T] == target[U] for target in targets.values())


def test_only_subscribers_share_a_topic() -> None:
    assert assign({T: 4, U: 2}, reader("a", T), reader("b", T, U)) == {
        "a": {T: [0, 1]},
        "b": {T: [2, 3], U: [0, 1]},
    }


def test_more_members_than_partitions() -> None:
    assert assign({T: 1}, reader("a", T), reader("b", T)) == {"a": {T: [0]}, "b": {}}


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    targets = assign({T: 3}, reader("a", T), reader("y", T, instance="i2"), reader("z", T, instance="i1"))
    assert targets == {"z": {T: [0]}, "y": {T: [1]}, "a": {T: [2]}}


def test_no_members_and_no_topics() -> None:
    assert assign({}) == {}
    assert assign({}, reader("a")) == {"a": {}}
    assert assign({T: 2}, reader("a")) == {"a": {}}

"""Assignors for random groups: each partition has exactly one subscriber, evenly, and with few moves."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.assignors import ASSIGNORS
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec

TOPICS = [uuid.UUID(int=number) for number in range(1, 6)]


@st.composite
def groups(draw: st.DrawFn, *, same: bool = False) -> GroupSpec:
    """Members with previous targets, where a partition belongs to at most one of them."""
    counts = {topic: draw(st.integers(1, 12)) for topic in draw(st.sets(st.sampled_from(TOPICS), min_size=1))}
    topics = sorted(counts)
    everything = frozenset(topics)
    names = [f"m{number}" for number in range(draw(st.integers(1, 9)))]
    choice = st.just(everything) if same else st.sets(st.sampled_from(topics)).map(frozenset)
    before: dict[str, dict[uuid.UUID, set[int]]] = {name: {} for name in names}
    for topic in topics:
        for partition in range(counts[topic] + draw(st.integers(0, 2))):
            owner = draw(st.sampled_from([None, *names]))
            if owner is not None:
                before[owner].setdefault(topic, set()).add(partition)
    members = [
        MemberSpec(
            name,
            draw(choice),
            {topic: frozenset(partitions) for topic, partitions in before[name].items()},
            draw(st.sampled_from([None, f"i-{name}"])),
        )
        for name in names
    ]
    read = frozenset().union(*(member.topic_ids for member in members))
    return GroupSpec(members, {topic: counts[topic] for topic in topics if topic in read})


def pairs(assignment: Assignment) -> set[tuple[uuid.UUID, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(group=groups())
def test_every_partition_is_assigned_to_exactly_one_reader(name: str, group: GroupSpec) -> None:
    targets = ASSIGNORS[name].assign(group)
    assert targets.keys() == {member.member_id for member in group.members}
    given_away = [pair for target in targets.values() for pair in pairs(target)]
    wanted = {(topic, number) for topic, count in group.partition_counts.items() for number in range(count)}
    assert sorted(given_away) == sorted(wanted)
    for member in group.members:
        assert targets[member.member_id].keys() <= member.topic_ids
        assert all(targets[member.member_id].values()), "no topic without partitions"


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(group=groups())
def test_the_order_of_members_does_not_matter_and_a_second_time_changes_nothing(
    name: str, group: GroupSpec
) -> None:
    assignor = ASSIGNORS[name]
    targets = assignor.assign(group)
    assert assignor.assign(GroupSpec(group.members[::-1], group.partition_counts)) == targets
    again = [member._replace(assigned=targets[member.member_id]) for member in group.members]
    assert assignor.assign(GroupSpec(again, group.partition_counts)) == targets


@given(group=groups(same=True))
def test_uniform_is_even_and_moves_as_little_as_possible(group: GroupSpec) -> None:
    targets = ASSIGNORS["uniform"].assign(group)
    sizes = [len(pairs(target)) for target in targets.values()]
    assert max(sizes) - min(sizes) <= 1
    counts = group.partition_counts
    held = [
        sum(
            len([each for each in partitions if each < counts[topic]])
            for topic, partitions in member.assigned.items()
            if topic in counts
        )
        for member in group.members
    ]
    share, remainder = divmod(sum(counts.values()), len(group.members))
    over = sum(size > share for size in held)
    most = sum(min(size, share) for size in held) + min(over, remainder)
    kept = sum(len(pairs(targets[member.member_id]) & pairs(member.assigned)) for member in group.members)
    assert kept == most


@given(group=groups())
def test_uniform_leaves_nothing_to_even_out_between_readers_of_a_topic(group: GroupSpec) -> None:
    targets = ASSIGNORS["uniform"].assign(group)
    sizes = {name: len(pairs(target)) for name, target in targets.items()}
    for giver in group.members:
        for topic in targets[giver.member_id]:
            for taker in group.members:
                if topic in taker.topic_ids:
                    assert sizes[giver.member_id] - sizes[taker.member_id] <= 1


@given(group=groups(same=True))
def test_range_cuts_every_topic_into_runs(group: GroupSpec) -> None:
    targets = ASSIGNORS["range"].assign(group)
    for topic, count in group.partition_counts.items():
        runs = [sorted(target[topic]) for target in targets.values() if topic in target]
        assert all(run == list(range(run[0], run[-1] + 1)) for run in runs)
        assert sum(map(len, runs)) == count
        assert max(map(len, runs)) - min(map(len, runs)) <= 1

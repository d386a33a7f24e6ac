"""The transition tables of consumer groups."""

from __future__ import annotations

import pytest

from ottla.base.errors import InvariantViolation
from ottla.coordinator.group.consumer.transitions import GROUP, MEMBER, GroupState, MemberState


def test_numbers_of_member_states_are_those_of_the_log() -> None:
    numbers = [(state.name, state.value) for state in MemberState]
    assert numbers == [
        ("STABLE", 0),
        ("UNREVOKED_PARTITIONS", 1),
        ("UNRELEASED_PARTITIONS", 2),
        ("UNKNOWN", 127),
    ]
    assert MemberState.of(2) is MemberState.UNRELEASED_PARTITIONS
    assert MemberState.of(3) is MemberState.UNKNOWN


def test_a_member_never_becomes_unknown_by_itself_twice() -> None:
    with pytest.raises(InvariantViolation):
        MEMBER.check(MemberState.UNKNOWN, MemberState.UNKNOWN)


def test_a_dead_group_stays_dead() -> None:
    assert not any(GROUP.allows(GroupState.DEAD, after) for after in GroupState)
    assert GROUP.allows(GroupState.STABLE, GroupState.EMPTY)

"""States of a consumer group and of its members, and what moves them.

A member's state is written to the log; a group's follows from its epochs and members and is never written. The
numbers of member states are those of the log; any other number is read as UNKNOWN, which only a newer coordinator
can have left behind.
"""

from __future__ import annotations

from enum import Enum

from ottla.coordinator.runtime.transitions import Move, Transitions


class MemberState(Enum):
    """How far a member has come on the way to its target assignment."""

    STABLE = 0
    """It has what it is meant to have."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it may go on."""
    UNRELEASED_PARTITIONS = 2
    """It is at the newest epoch, but others still hold some of its partitions."""
    UNKNOWN = 127
    """Written by a coordinator that knows more states."""

    @staticmethod
    def of(number: int) -> MemberState:
        """The state with that number in the log."""
        return _BY_NUMBER.get(number, MemberState.UNKNOWN)


_BY_NUMBER = {state.value: state for state in MemberState}


class GroupState(Enum):
    """What a group is doing, in the words of ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


_KNOWN = (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)

MEMBER = Transitions(
    "consumer group member",
    MemberState,
    MemberState.STABLE,
    [
        Move("partitions must be given up", tuple(MemberState), MemberState.UNREVOKED_PARTITIONS),
        Move(
            "nothing to give up, but others still hold what it is to get",
            tuple(MemberState),
            MemberState.UNRELEASED_PARTITIONS,
        ),
        Move("has all it is meant to have", tuple(MemberState), MemberState.STABLE),
        Move("a newer coordinator wrote a state unknown here", _KNOWN, MemberState.UNKNOWN),
    ],
)

_LIVE = (GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE)

GROUP = Transitions(
    "consumer group",
    GroupState,
    GroupState.EMPTY,
    [
        Move(
            "a member joins, leaves or reads other topics, or topics change",
            (GroupState.EMPTY, *_LIVE),
            GroupState.ASSIGNING,
        ),
        Move(
            "a target assignment is there, some member is not at it",
            (GroupState.EMPTY, *_LIVE),
            GroupState.RECONCILING,
        ),
        Move("all members have what they are meant to have", (GroupState.EMPTY, *_LIVE), GroupState.STABLE),
        Move("the last member leaves", _LIVE, GroupState.EMPTY),
        Move("the group is deleted, or becomes a classic group", (GroupState.EMPTY, *_LIVE), GroupState.DEAD),
    ],
)

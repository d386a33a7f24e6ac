"""The states of a consumer group and of its members, and their transitions.

The state of a member is stored in the log. The state of a group results from its epochs and members and is not
stored. The numbers of member states are those of the log; any other number, which only a newer coordinator writes, is
read as UNKNOWN.
"""

from __future__ import annotations

from enum import Enum

from ottla.coordinator.runtime.transitions import Move, Transitions


class MemberState(Enum):
    """The progress of a member's reconciliation."""

    STABLE = 0
    """All target partitions are assigned."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions before its epoch advances."""
    UNRELEASED_PARTITIONS = 2
    """The member is at the target epoch; other members have not released some of its partitions."""
    UNKNOWN = 127
    """A state that a newer coordinator wrote."""

    @staticmethod
    def of(number: int) -> MemberState:
        """The state with that number in the log."""
        return _BY_NUMBER.get(number, MemberState.UNKNOWN)


_BY_NUMBER = {state.value: state for state in MemberState}


class GroupState(Enum):
    """The states with the names that clients see."""

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
        Move("partitions must be revoked", tuple(MemberState), MemberState.UNREVOKED_PARTITIONS),
        Move(
            "nothing to revoke, but target partitions are not released by other members",
            tuple(MemberState),
            MemberState.UNRELEASED_PARTITIONS,
        ),
        Move("all target partitions are assigned", tuple(MemberState), MemberState.STABLE),
        Move("a newer coordinator wrote an unknown state", _KNOWN, MemberState.UNKNOWN),
    ],
)

_LIVE = (GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE)

GROUP = Transitions(
    "consumer group",
    GroupState,
    GroupState.EMPTY,
    [
        Move(
            "a member joins, leaves or changes its subscription, or topics change",
            (GroupState.EMPTY, *_LIVE),
            GroupState.ASSIGNING,
        ),
        Move(
            "a target assignment is computed; a member is not reconciled",
            (GroupState.EMPTY, *_LIVE),
            GroupState.RECONCILING,
        ),
        Move("all members are reconciled", (GroupState.EMPTY, *_LIVE), GroupState.STABLE),
        Move("the last member leaves", _LIVE, GroupState.EMPTY),
        Move("the group is deleted, or becomes a classic group", (GroupState.EMPTY, *_LIVE), GroupState.DEAD),
    ],
)

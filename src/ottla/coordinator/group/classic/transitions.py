"""The states of a classic group and the transitions between them.

EMPTY           no members; offsets may remain. Also the state of a group that only commits offsets
PREPARING       the join phase: JoinGroup requests wait until all members have joined or the timeout passes
COMPLETING      the sync phase: the generation is fixed and the members wait for the leader's assignment
STABLE          every member has an assignment or can request it with SyncGroup
DEAD            the group was deleted, or this broker no longer coordinates it
"""

from __future__ import annotations

from enum import Enum

from ottla.coordinator.runtime.transitions import Move, Transitions


class ClassicState(Enum):
    """The states with the names that clients see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

TRANSITIONS = Transitions(
    "classic group",
    ClassicState,
    _EMPTY,
    [
        Move("the first member joins", (_EMPTY,), _PREPARING),
        Move("a member joins, leaves or expires", (_COMPLETING, _STABLE), _PREPARING),
        Move("all members joined, or the timeout passed", (_PREPARING,), _COMPLETING),
        Move("the join phase ends without members", (_PREPARING,), _EMPTY),
        Move("the leader's assignment is committed", (_COMPLETING,), _STABLE),
        Move(
            "the group is deleted, or the coordinator unloaded",
            (_EMPTY, _PREPARING, _COMPLETING, _STABLE),
            _DEAD,
        ),
    ],
)

"""The states of a classic group, and every move between them.

EMPTY           no members; offsets may remain. Also the state of a group that only ever committed offsets
PREPARING       a new generation is being gathered: joins are parked until all known members are back or late
COMPLETING      the generation is fixed; all but the leader wait for the leader's plan
STABLE          everybody has, or may ask for, an assignment
DEAD            this broker no longer speaks for the group
"""

from __future__ import annotations

from enum import Enum

from ottla.coordinator.runtime.transitions import Move, Transitions


class ClassicState(Enum):
    """States under the names that clients see."""

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
        Move("first member joins", (_EMPTY,), _PREPARING),
        Move("member joins, leaves or expires", (_COMPLETING, _STABLE), _PREPARING),
        Move("all joined, or time is up", (_PREPARING,), _COMPLETING),
        Move("nobody is left", (_PREPARING,), _EMPTY),
        Move("leader's plan is committed", (_COMPLETING,), _STABLE),
        Move("deleted, or coordinated elsewhere", (_EMPTY, _PREPARING, _COMPLETING, _STABLE), _DEAD),
    ],
)

from enum import Enum

import pytest

from ottla.base.errors import InvariantViolation
from ottla.coordinator.runtime.transitions import Move, Transitions


class Door(Enum):
    OPEN = "Open"
    SHUT = "Shut"
    LOCKED = "Locked"


DOORS = Transitions(
    "door",
    Door,
    Door.OPEN,
    [
        Move("pushed", (Door.OPEN,), Door.SHUT),
        Move("pulled", (Door.SHUT,), Door.OPEN),
        Move("key turned", (Door.SHUT,), Door.LOCKED),
        Move("kicked", (Door.SHUT, Door.LOCKED), Door.OPEN),
    ],
)


def test_listed_transitions_are_allowed() -> None:
    DOORS.check(Door.OPEN, Door.SHUT)
    assert DOORS.allows(Door.LOCKED, Door.OPEN)


@pytest.mark.parametrize(("before", "after"), [(Door.OPEN, Door.LOCKED), (Door.OPEN, Door.OPEN)])
def test_an_unlisted_transition_violates_an_invariant(before: Door, after: Door) -> None:
    assert not DOORS.allows(before, after)
    with pytest.raises(InvariantViolation, match=f"door: no event leads from {before.name} to {after.name}"):
        DOORS.check(before, after)


def test_events_between_two_states_are_listed() -> None:
    assert DOORS.events(Door.SHUT, Door.OPEN) == ["pulled", "kicked"]
    assert DOORS.events(Door.OPEN, Door.LOCKED) == []


def test_an_unreachable_state_is_refused() -> None:
    with pytest.raises(InvariantViolation, match="no transition leads to"):
        Transitions("door", Door, Door.OPEN, [Move("pushed", (Door.OPEN,), Door.SHUT)])

import pytest

from ottla.coordinator.group.classic.transitions import TRANSITIONS, ClassicState

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicState

ALLOWED = {
    (EMPTY, PREPARING),
    (PREPARING, COMPLETING),
    (PREPARING, EMPTY),
    (COMPLETING, PREPARING),
    (COMPLETING, STABLE),
    (STABLE, PREPARING),
    *((state, DEAD) for state in (EMPTY, PREPARING, COMPLETING, STABLE)),
}


@pytest.mark.parametrize("before", ClassicState)
@pytest.mark.parametrize("after", ClassicState)
def test_a_rebalance_passes_through_all_states(before: ClassicState, after: ClassicState) -> None:
    assert TRANSITIONS.allows(before, after) == ((before, after) in ALLOWED)


def test_state_names_are_those_that_clients_see() -> None:
    names = [state.value for state in ClassicState]
    assert names == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
